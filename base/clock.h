// SPDX-License-Identifier: MIT
// The clock as an interface, which tests replace to avoid waiting.
#pragma once

#include <algorithm>
#include <chrono>

namespace mnemon {

// Safe for concurrent use.
class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic; for durations, deadlines and expiry.
  virtual std::chrono::steady_clock::time_point Now() const = 0;
  // Wall clock; for times shown to people and clients only.
  virtual std::chrono::system_clock::time_point WallNow() const = 0;

  // The machine's clock. Never destroyed.
  static const Clock& Real();
};

// How long a thread may sleep before it reads a Clock again, if something is due in
// `left`: from a millisecond to a second, since that clock may run at another rate than
// the machine's.
constexpr std::chrono::nanoseconds SleepFor(std::chrono::nanoseconds left) {
  return std::clamp<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1),
                                              std::chrono::seconds(1));
}

}  // namespace mnemon
