// SPDX-License-Identifier: MIT
// Masks of attention scores of all shapes that class MultiheadAttention of the
// attention notebook accepts.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/blocks/attention/attend_torch.h"

namespace mnemon {

// Sizes that a mask must match.
struct ScoreShape {
  int64_t batch;    // B
  int64_t heads;    // H
  int64_t queries;  // T
  int64_t keys;     // J
};

// A mask [T, J], [B, T, J] or [B, H, T, J] for `type` scores. Boolean and integer masks
// name the keys that take part (non-zero); floating ones are added to the scaled scores
// and may hold -infinity, but neither NaN nor +infinity. Undefined: everything takes
// part. INVALID_ARGUMENT names the shape.
absl::StatusOr<ScoreMask> MakeScoreMask(const at::Tensor& mask, const ScoreShape& shape,
                                        at::ScalarType type);

}  // namespace mnemon
