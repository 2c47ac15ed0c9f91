// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

namespace mnemon {

// Lets `burst` things pass at once and `per_second` later. Safe for concurrent use.
class Throttle {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Throttle(double per_second, double burst);

  // Nullopt: `now` it does not pass. Else how many did not pass since the last that
  // did.
  std::optional<int64_t> Pass(Time now);

 private:
  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  double tokens_;             // guarded by mutex_
  std::optional<Time> last_;  // guarded by mutex_
  int64_t held_back_ = 0;     // guarded by mutex_
};

}  // namespace mnemon
