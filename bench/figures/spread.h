// SPDX-License-Identifier: MIT
// The spread of repeated measurements of one thing.
#pragma once

#include <vector>

namespace mnemon {

struct Spread {
  double least = 0;
  double lower = 0;  // first quartile
  double median = 0;
  double upper = 0;  // third quartile
  double p99 = 0;
  double mean = 0;
};

// Interpolates linearly between samples. All 0 without samples.
Spread SpreadOf(std::vector<double> samples);

}  // namespace mnemon
