// SPDX-License-Identifier: MIT
#include "train/report/distance_weights.h"

namespace mnemon {

std::vector<double> MeanByDistance(std::span<const float> weights, int64_t keys) {
  const auto queries = static_cast<int64_t>(weights.size()) / keys;
  std::vector<double> means;
  for (int64_t distance = 0; distance < keys; ++distance) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t key = keys - queries + i - distance;
      if (key < 0) continue;
      sum += weights[i * keys + key];
      ++count;
    }
    means.push_back(sum / static_cast<double>(count));
  }
  return means;
}

}  // namespace mnemon
