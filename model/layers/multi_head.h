// SPDX-License-Identifier: MIT
// Multi-head attention of queries over other keys and values ("Attention Is All You
// Need", section 3.2.2), with masks of every shape: the class MultiheadAttention of the
// attention notebook.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/layers/affine.h"
#include "model/layers/attention.h"
#include "model/layers/dropout.h"

namespace mnemon {

struct MultiHead {
  int64_t heads;
  Affine query, key, value, output;  // [D, D], no bias
};

MultiHead MakeMultiHead(int64_t width, int64_t heads);
void VisitMultiHead(const WeightVisitor& visit, int64_t layer, MultiHead& weights);

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

// query [B, T, D], key [B, J, D] -> weights [B, H, T, J].
at::Tensor MultiHeadWeights(const at::Tensor& query, const at::Tensor& key,
                            const MultiHead& weights, const ScoreMask& mask);

struct MultiHeadResult {
  at::Tensor output;   // [B, T, D]
  at::Tensor weights;  // [B, H, T, J], before dropout
};

// query [B, T, D], key and value [B, J, D].
MultiHeadResult AttendMultiHead(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const MultiHead& weights,
                                const ScoreMask& mask, const Dropout& drop);

}  // namespace mnemon
