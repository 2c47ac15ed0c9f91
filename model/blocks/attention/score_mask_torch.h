// SPDX-License-Identifier: MIT
// Masks of attention scores of every shape, as the class MultiheadAttention of the
// attention notebook takes them.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/blocks/attention/attend_torch.h"

namespace mnemon {

// Lengths that a mask must fit.
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
