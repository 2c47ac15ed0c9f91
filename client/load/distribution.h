// SPDX-License-Identifier: MIT
// The distribution of a measured time, in bounded memory.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon::client {

// Count, mean, standard deviation and maximum are exact; quantiles are within 1 % from
// a microsecond to a day. In seconds. Not safe for concurrent use.
class Distribution {
 public:
  Distribution();

  // A negative time counts as 0.
  void Add(double seconds);

  // Without any time, all are 0.
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  // Sample standard deviation: the root of the sum of squares over count - 1.
  double deviation() const;
  double max() const { return max_; }
  // The quantile for a fraction `share` from 0 to 1.
  double Quantile(double share) const;

 private:
  // Bucket i > 0 holds the times from kLeast * kRatio^(i - 1) to kLeast * kRatio^i.
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared deviations from the mean
  double max_ = 0;
};

}  // namespace mnemon::client
