// SPDX-License-Identifier: MIT
// Time through an interface, so that tests wait for nothing.
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

  // The machine's clock. Lives for ever.
  static const Clock& Real();
};

// How long a thread sleeps before it looks again at a Clock on which something is due
// in `left`: from a millisecond to a second, since that clock may run apart from the
// machine's.
constexpr std::chrono::nanoseconds SleepFor(std::chrono::nanoseconds left) {
  return std::clamp<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1),
                                              std::chrono::seconds(1));
}

}  // namespace mnemon
