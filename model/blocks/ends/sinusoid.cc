// SPDX-License-Identifier: MIT
#include "model/blocks/ends/sinusoid.h"

#include "model/compute/functions.h"

namespace mnemon {
namespace {

double Frequency(size_t pair, size_t width) {
  return numerics::Exp(-2.0 * static_cast<double>(pair) * numerics::Log(10000.0) /
                       static_cast<double>(width));
}

}  // namespace

void SinusoidRow(int64_t position, std::span<double> row) {
  for (size_t d = 0; d < row.size(); ++d) {
    const double angle = static_cast<double>(position) * Frequency(d / 2, row.size());
    row[d] = d % 2 == 0 ? numerics::Sin(angle) : numerics::Cos(angle);
  }
}

std::vector<double> SinusoidFrequencies(int64_t width) {
  std::vector<double> frequencies(static_cast<size_t>((width + 1) / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = Frequency(i, static_cast<size_t>(width));
  }
  return frequencies;
}

}  // namespace mnemon
