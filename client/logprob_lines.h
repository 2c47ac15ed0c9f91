// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string>

#include "client/client.h"

namespace mnemon::client {

// One line per token: index, id and log-probability, then the candidates as
// id:log-probability, all parted by one space.
std::string LogprobLines(std::span<const TokenLogprobs> tokens);

}  // namespace mnemon::client
