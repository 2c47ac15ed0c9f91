// SPDX-License-Identifier: MIT
#include "client/load/distribution.h"

#include <algorithm>
#include <cmath>

namespace mnemon::client {
namespace {

constexpr double kLeast = 1e-6;
constexpr double kMost = 86400;
constexpr double kRatio = 1.02;

size_t BucketOf(double seconds) {
  if (!(seconds > kLeast)) return 0;
  return static_cast<size_t>(
      std::ceil(std::log(std::min(seconds, kMost) / kLeast) / std::log(kRatio)));
}

}  // namespace

Distribution::Distribution() : buckets_(BucketOf(kMost) + 1) {}

void Distribution::Add(double seconds) {
  seconds = std::max(seconds, 0.0);
  ++buckets_[BucketOf(seconds)];
  ++count_;
  // Welford's update, which loses no digits if the mean is large.
  const double before = seconds - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (seconds - mean_);
  max_ = std::max(max_, seconds);
}

double Distribution::deviation() const {
  return count_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(count_ - 1));
}

double Distribution::Quantile(double share) const {
  const auto rank =
      static_cast<int64_t>(std::ceil(share * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (buckets_[i] == 0 || seen < rank) continue;
    const double middle =
        i == 0 ? kLeast / 2 : kLeast * std::pow(kRatio, static_cast<double>(i) - 0.5);
    return std::min(middle, max_);
  }
  return max_;
}

}  // namespace mnemon::client
