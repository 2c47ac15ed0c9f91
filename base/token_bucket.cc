// SPDX-License-Identifier: MIT
#include "base/token_bucket.h"

#include <algorithm>
#include <cmath>

namespace mnemon {

TokenBucket::TokenBucket(double per_second, double burst)
    : per_second_(per_second), burst_(burst), tokens_(burst) {}

std::chrono::nanoseconds TokenBucket::Take(Time now) {
  constexpr double kDay = 24.0 * 3600;
  std::lock_guard lock(mutex_);
  if (last_ && now > *last_) {
    const std::chrono::duration<double> passed = now - *last_;
    tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
  }
  last_ = std::max(last_.value_or(now), now);
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return std::chrono::nanoseconds(0);
  }
  const double seconds = std::min((1 - tokens_) / per_second_, kDay);
  return std::chrono::nanoseconds(
      std::max<int64_t>(1, std::llround(std::ceil(seconds * 1e9))));
}

}  // namespace mnemon
