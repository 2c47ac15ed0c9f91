// SPDX-License-Identifier: MIT
// The flag --ttl of commands that create sessions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/command_line.h"

namespace mnemon::client {

// Of a session that is to be kept, in seconds.
inline constexpr int32_t kSessionTtl = 86400;

// `defaults` ends the help text; `seconds` must outlive `command`.
void AddTtlFlag(Command command, std::optional<int32_t>& seconds,
                const std::string& defaults);
// Absent for 0: the server's default.
std::optional<std::chrono::milliseconds> TtlOfSeconds(int32_t seconds);

}  // namespace mnemon::client
