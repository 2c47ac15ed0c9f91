// SPDX-License-Identifier: MIT
#include "model/compute/angle_table.h"

#include <algorithm>

#include "model/compute/functions.h"

namespace mnemon {
namespace {

// Sine and cosine of positions 0, stride, 2 stride .. at every frequency.
std::vector<double> Turns(int64_t count, int64_t stride,
                          const std::vector<double>& frequencies) {
  std::vector<double> turns;
  turns.reserve(static_cast<size_t>(count) * frequencies.size() * 2);
  for (int64_t r = 0; r < count; ++r) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(r * stride) * frequency;
      turns.push_back(numerics::Sin(angle));
      turns.push_back(numerics::Cos(angle));
    }
  }
  return turns;
}

}  // namespace

AngleTable::AngleTable(int64_t positions, const std::vector<double>& frequencies)
    : turns_(2 * static_cast<int64_t>(frequencies.size())),
      coarse_(Turns((positions + kStride - 1) / kStride, kStride, frequencies)),
      fine_(Turns(std::min(positions, kStride), 1, frequencies)) {}

}  // namespace mnemon
