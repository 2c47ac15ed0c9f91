// SPDX-License-Identifier: MIT
// Times in RFC 3339 format: "2026-03-01T12:30:00.25+01:00".
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mnemon {

// A moment in the years 0 to 9999, more than a system_clock::time_point can hold.
struct Instant {
  int64_t seconds = 0;  // since 1970-01-01T00:00:00Z, without leap seconds
  int32_t nanos = 0;    // 0 to 999,999,999, forward from `seconds`
  auto operator<=>(const Instant&) const = default;
};

Instant InstantOf(std::chrono::system_clock::time_point time);

// `text` with Z or an offset, and up to nine digits of fraction; 'T' and 'Z' may be
// lower case. Nothing for anything else: days and hours that do not exist, including
// leap seconds, and text before or after.
std::optional<Instant> ParseRfc3339(std::string_view text);

}  // namespace mnemon
