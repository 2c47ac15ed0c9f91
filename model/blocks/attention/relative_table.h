// SPDX-License-Identifier: MIT
// Tables of relative positions for the step form: transposed, so that the rows of
// consecutive positions are contiguous.
#pragma once

#include <cstdint>

#include "model/compute/step_weights.h"
#include "model/compute/weights.h"

namespace mnemon {

struct RelativeTable {
  const float* key = nullptr;   // R^T [H][K][rows]
  const float* bias = nullptr;  // S^T [H][rows]
  int64_t rows = 0;
};

// Filled by weights.Pack(). key R [rows, H, K]; bias S [rows, H], or null: then S = u.R
// with u = query_bias [H, K].
RelativeTable MakeRelativeTable(const TensorView& key, const TensorView* bias,
                                const TensorView* query_bias, StepWeights& weights);

}  // namespace mnemon
