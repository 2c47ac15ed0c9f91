// SPDX-License-Identifier: MIT
#include "model/blocks/ends/sinusoid.h"

#include <algorithm>

#include "model/compute/functions.h"

namespace mnemon {
namespace {

double Frequency(size_t pair, size_t width) {
  return numerics::Exp(-2.0 * static_cast<double>(pair) * numerics::Log(10000.0) /
                       static_cast<double>(width));
}

// Sine and cosine of positions 0, stride, 2 stride .. at every frequency.
std::vector<double> Turns(int64_t count, int64_t stride, int64_t width) {
  const auto pairs = static_cast<size_t>((width + 1) / 2);
  std::vector<double> turns;
  turns.reserve(static_cast<size_t>(count) * pairs * 2);
  for (int64_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < pairs; ++i) {
      const double angle =
          static_cast<double>(r * stride) * Frequency(i, static_cast<size_t>(width));
      turns.push_back(numerics::Sin(angle));
      turns.push_back(numerics::Cos(angle));
    }
  }
  return turns;
}

}  // namespace

void SinusoidRow(int64_t position, std::span<double> row) {
  for (size_t d = 0; d < row.size(); ++d) {
    const double angle = static_cast<double>(position) * Frequency(d / 2, row.size());
    row[d] = d % 2 == 0 ? numerics::Sin(angle) : numerics::Cos(angle);
  }
}

SinusoidTable::SinusoidTable(int64_t positions, int64_t width)
    : width_(width),
      coarse_(Turns((positions + kStride - 1) / kStride, kStride, width)),
      fine_(Turns(std::min(positions, kStride), 1, width)) {}

}  // namespace mnemon
