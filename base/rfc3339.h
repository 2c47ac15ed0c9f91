// SPDX-License-Identifier: MIT
// Times as RFC 3339 writes them: "2026-03-01T12:30:00.25+01:00".
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mnemon {

// A moment of the years 0 to 9999, more than a system_clock::time_point can hold.
struct Instant {
  int64_t seconds = 0;  // since 1970-01-01T00:00:00Z, without leap seconds
  int32_t nanos = 0;    // 0 to 999,999,999, forward from `seconds`
  auto operator<=>(const Instant&) const = default;
};

Instant InstantOf(std::chrono::system_clock::time_point time);

// `text` with Z or an offset, and up to nine digits of fraction; 'T' and 'Z' may be
// small. Nothing for all else: days and hours that do not exist, leap seconds among
// them, and text before or behind.
std::optional<Instant> ParseRfc3339(std::string_view text);

}  // namespace mnemon
