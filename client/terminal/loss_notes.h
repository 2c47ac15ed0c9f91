// SPDX-License-Identifier: MIT
// Messages of commands about a server that is lost and comes back.
#pragma once

#include <cstdint>
#include <string>

#include "client/client.h"

namespace mnemon::client {

// A line for GenerateChunk::resumed_after.
std::string ResumedNote(int64_t resumed_after);
// If standard error is a terminal, prints a line there before each wait.
void TellLosses(ClientOptions& options);

}  // namespace mnemon::client
