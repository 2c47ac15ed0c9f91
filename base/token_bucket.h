// SPDX-License-Identifier: MIT
// Token bucket, which limits a rate: a number of events at once, and a number per
// second.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>

namespace mnemon {

// Safe for concurrent use.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Full at first: `burst` tokens at once, `per_second` more each second.
  // REQUIRES: per_second > 0, burst >= 1.
  TokenBucket(double per_second, double burst);

  // Takes a token and returns zero, or takes none and returns the time until there is
  // one, at most a day. A `now` earlier than the last one counts as the last one.
  std::chrono::nanoseconds Take(Time now);

 private:
  const double per_second_;
  const double burst_;
  std::mutex mutex_;
  double tokens_;             // guarded by mutex_
  std::optional<Time> last_;  // guarded by mutex_
};

}  // namespace mnemon
