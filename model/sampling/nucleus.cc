// SPDX-License-Identifier: MIT
// Tokens are counted into buckets of equal width by how far they are below the largest
// logit. A bucket's weight is that of its middle times a sum of short Taylor
// polynomials, so that only the bucket in which the nucleus ends needs a sort and
// exponentials. The sum and the target are compared with a relative kSlack, above what
// separates them from the sums of the definition: 4e-10 each from the polynomials, V *
// 2^-53 each from roundings in either order of addition, V * exp(-kReach) from tokens
// beyond the last bucket. What lies within the slack is left to the caller.
#include "model/sampling/nucleus.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace mnemon {
namespace {

constexpr int kBuckets = 2048;
constexpr double kReach = 40;  // gap / temperature of the end of the last bucket
constexpr double kWidth = kReach / kBuckets;
constexpr double kSlack = 2e-9;
constexpr size_t kMostIds = size_t{1} << 20;

const std::array<double, kBuckets>& MiddleWeights() {
  static const std::array<double, kBuckets> weights = [] {
    std::array<double, kBuckets> result;
    for (int i = 0; i < kBuckets; ++i) result[i] = std::exp(-kWidth * (i + 0.5));
    return result;
  }();
  return weights;
}

// The weight at `from` buckets behind the middle of a bucket, as a share of that in the
// middle: exp(-kWidth * from) for -0.5 <= from <= 0.5.
double ShareOfMiddle(double from) {
  return 1 + from * (-kWidth + from * (kWidth * kWidth / 2 +
                                       from * (-kWidth * kWidth * kWidth / 6)));
}

}  // namespace

bool CutToNucleus(const LogitDistribution& all, double p, std::vector<int32_t>& ids,
                  NucleusScratch& scratch) {
  const double scale = kBuckets / kReach / all.temperature;
  if (!std::isfinite(scale) || ids.size() > kMostIds) return false;
  // In buckets; the integer part is the bucket. Infinite for -infinity.
  const auto position = [scale, most = all.most, logit = all.logit.data()](int32_t id) {
    return (most - logit[id]) * scale;
  };

  std::vector<double>& mass = scratch.mass;
  mass.assign(kBuckets, 0);
  for (const int32_t id : ids) {
    const double at = position(id);
    if (!(at < kBuckets)) continue;
    const int bucket = static_cast<int>(at);
    mass[bucket] += ShareOfMiddle(at - 0.5 - bucket);
  }
  double total = 0;
  for (int i = 0; i < kBuckets; ++i) total += mass[i] *= MiddleWeights()[i];

  const double target = p * total;
  const double surely_below = target * (1 - kSlack);
  const double surely_reached = target * (1 + kSlack);
  double sum = 0;
  int last = 0;
  while (last < kBuckets && sum + mass[last] < surely_below) sum += mass[last++];
  if (last == kBuckets) return false;

  std::vector<int32_t>& near = scratch.ids;
  near.resize(ids.size());
  size_t count = 0;
  for (const int32_t id : ids) {
    near[count] = id;
    count += position(id) < last + 1;
  }
  near.resize(count);
  std::vector<KeyedId>& entries = scratch.entries;
  entries.clear();
  for (const int32_t id : near) {
    if (position(id) >= last) entries.push_back({.key = -all.logit[id], .id = id});
  }
  SortByKey(entries, scratch.spare);
  for (const KeyedId& end : entries) {
    sum += std::exp((all.logit[end.id] - all.most) / all.temperature);
    if (sum < surely_below) continue;
    if (sum < surely_reached) return false;
    std::erase_if(near, [&](int32_t id) {
      const double key = -all.logit[id];
      return key > end.key || (key == end.key && id > end.id);
    });
    ids.swap(near);
    return true;
  }
  return false;
}

}  // namespace mnemon
