// SPDX-License-Identifier: MIT
#include "bench/figures/spread.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace mnemon {

Spread SpreadOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(samples.size() - 1);
    const size_t below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, samples.size() - 1);
    return std::lerp(samples[below], samples[above], place - std::floor(place));
  };
  return {.least = samples.front(),
          .lower = at(0.25),
          .median = at(0.5),
          .upper = at(0.75),
          .p99 = at(0.99),
          .mean = std::accumulate(samples.begin(), samples.end(), 0.0) /
                  static_cast<double>(samples.size())};
}

}  // namespace mnemon
