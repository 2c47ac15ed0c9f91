// SPDX-License-Identifier: MIT
// The flag --ttl of commands that create sessions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/process/command_line.h"

namespace mnemon::client {

// `defaults`: behaviour without the flag, for the help text. `seconds` must outlive
// `command`.
Flag AddTtlFlag(Command command, std::optional<int32_t>& seconds,
                const std::string& defaults);
// `otherwise` if the flag was not given; nullopt, the server's default, for 0.
std::optional<std::chrono::milliseconds> TtlOfFlag(
    std::optional<int32_t> seconds, std::optional<std::chrono::milliseconds> otherwise);

}  // namespace mnemon::client
