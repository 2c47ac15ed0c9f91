// SPDX-License-Identifier: MIT
// The plan of a linear call for few rows (linear.h), and the shared memory that it
// needs; computed on the host.
#pragma once

#include "model/compute/cuda/input_tile.h"
#include "model/compute/cuda/linear_plan.h"

namespace mnemon::device {

// Outputs of a unit.
inline constexpr int UnitOutputs(const MatrixView& matrix) {
  return matrix.format == WeightFormat::kInt8 ? static_cast<int>(kPanel) : 4;
}
inline constexpr int64_t LinearUnits(const MatrixView& matrix) {
  return matrix.panel_count() * (kPanel / UnitOutputs(matrix));
}

// Lines of four outputs in a slice copied ahead: one input each, or two in bf16.
inline constexpr int SliceLines(const MatrixView& matrix, int width) {
  return matrix.format == WeightFormat::kBf16 ? (width + 1) / 2 : width;
}

// Plan for a launch of `blocks` blocks of `threads` threads with this much shared
// memory, including the part for data copied ahead. REQUIRES: shared memory for one
// row.
inline LinearPlan PlanLinear(const LinearCall& call, int64_t rows, int64_t blocks,
                             int threads, int64_t shared_floats, int64_t ahead_floats) {
  const MatrixView& matrix = call.weights;
  const bool int8 = matrix.format == WeightFormat::kInt8;
  const int64_t slices = matrix.slices(), units = LinearUnits(matrix);
  LinearPlan plan;
  plan.slices = static_cast<int>(slices);
  plan.outputs = UnitOutputs(matrix);
  plan.each = static_cast<int>(units / blocks);
  plan.more = static_cast<int>(units % blocks);
  const int sums = threads / plan.outputs / plan.slices;
  plan.at_once = sums < 1 ? 1 : sums;
  const int64_t sums_of_row = int64_t{plan.at_once} * slices * plan.outputs;
  int64_t most = shared_floats / (sums_of_row + InputTile::FloatsOfRow(matrix, slices));
  if (most > rows) most = rows;
  plan.tile_rows = most > kTileRows ? kTileRows : most < 1 ? 1 : static_cast<int>(most);
  plan.tile_at = static_cast<int>(plan.tile_rows * sums_of_row);

  const auto whole = [](int64_t floats) {
    return static_cast<int32_t>((floats + 3) / 4 * 4);
  };
  const int32_t inputs = whole(matrix.inputs);
  const int of_block = plan.each + (plan.more > 0 ? 1 : 0);
  plan.norm_bias_at = call.norm.gain == nullptr ? 0 : inputs;
  plan.bias_at = 2 * plan.norm_bias_at;
  plan.scales_at =
      plan.bias_at + (matrix.bias == nullptr ? 0 : whole(of_block * plan.outputs));
  plan.weights_at =
      plan.scales_at + (matrix.scales == nullptr ? 0 : whole(of_block * plan.outputs));
  // A slice begins in other banks than its neighbours.
  plan.slice_floats = SliceLines(matrix, static_cast<int>(matrix.slice)) * 4 + 4;
  plan.unit_floats =
      int8 ? static_cast<int>(matrix.panel_bytes / static_cast<int64_t>(sizeof(float)))
           : plan.slices * plan.slice_floats;
  const auto fours = [](const void* at) {
    return reinterpret_cast<uintptr_t>(at) % sizeof(Four) == 0;
  };
  // Nothing may be read after a norm.
  plan.ahead = call.gate == nullptr &&
               (call.norm.gain == nullptr || matrix.inputs % 4 == 0) &&
               matrix.panel_bytes == slices * matrix.slice_bytes &&
               plan.weights_at + int64_t{of_block} * plan.unit_floats <= ahead_floats &&
               fours(matrix.panels) && fours(matrix.bias) && fours(matrix.scales) &&
               fours(call.norm.gain) && fours(call.norm.bias);
  return plan;
}
// Floats of shared memory for `rows` rows at once.
inline int64_t LinearFloats(const LinearCall& call, int64_t rows, int threads) {
  const LinearPlan plan = PlanLinear(call, 1, 1, threads, 0, 0);
  return rows * (int64_t{plan.at_once} * plan.slices * plan.outputs +
                 InputTile::FloatsOfRow(call.weights, plan.slices));
}

}  // namespace mnemon::device
