// SPDX-License-Identifier: MIT
// Log-probabilities as lines of text.
#pragma once

#include <span>
#include <string>

#include "client/client.h"

namespace mnemon::client {

// One line per token: index, id and log-probability, then the candidates as
// id:log-probability, separated by one space.
std::string LogprobLines(std::span<const TokenLogprobs> tokens);

}  // namespace mnemon::client
