// SPDX-License-Identifier: MIT
// How many calls that make work are taken per second, over all callers.
#pragma once

#include <chrono>
#include <mutex>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mnemon {

// A bucket of tokens: as many as a second brings, at least one, and full at first. Safe
// for concurrent use.
class RateLimit {
 public:
  // 0 = no limit. REQUIRES: finite, not negative; `clock` outlives it.
  RateLimit(double calls_per_second, const Clock& clock);

  // RESOURCE_EXHAUSTED, RATE_LIMIT, with the time until the next call can be taken.
  absl::Status Admit();

 private:
  const double per_second_;
  const double capacity_;
  const Clock& clock_;
  std::mutex mutex_;
  double tokens_;                                 // guarded by mutex_
  std::chrono::steady_clock::time_point filled_;  // guarded by mutex_
};

}  // namespace mnemon
