// SPDX-License-Identifier: MIT
#include "base/throttle.h"

#include <algorithm>
#include <utility>

namespace mnemon {

Throttle::Throttle(double per_second, double burst)
    : per_second_(per_second), burst_(burst), tokens_(burst) {}

std::optional<int64_t> Throttle::Pass(Time now) {
  std::lock_guard lock(mutex_);
  if (last_ && now > *last_) {
    const std::chrono::duration<double> passed = now - *last_;
    tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
  }
  last_ = std::max(last_.value_or(now), now);
  if (tokens_ < 1) {
    ++held_back_;
    return std::nullopt;
  }
  tokens_ -= 1;
  return std::exchange(held_back_, 0);
}

}  // namespace mnemon
