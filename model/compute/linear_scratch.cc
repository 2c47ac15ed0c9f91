// SPDX-License-Identifier: MIT
#include "model/compute/linear_scratch.h"

#include <algorithm>

#include "model/compute/int8_rows.h"
#include "model/compute/row_buffer.h"

namespace mnemon {

int64_t LinearScratch(int64_t rows, int64_t inputs) {
  // Normed or picked rows, totals of two panels, unfinished sums, and part of those
  // panels in float32. In int8: one normed row, int8 rows, which take no more than
  // float rows, and totals.
  return rows * (RowStride(inputs) + 4 * kPanel) + RowStride(inputs) +
         2 * (kScratchInputs + 1) * kPanel;
}

int64_t LinearScratch(int64_t rows, const MatrixView& weights) {
  const int64_t usual = LinearScratch(rows, weights.inputs);
  if (weights.format != WeightFormat::kInt8) return usual;
  const Int8Room room(rows, weights, {0, weights.slices()});
  return std::max(usual,
                  RowStride(weights.inputs) + room.floats() + Int8TotalFloats(rows));
}

}  // namespace mnemon
