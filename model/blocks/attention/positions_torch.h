// SPDX-License-Identifier: MIT
// Position terms of attention scores in sequence forms: linear biases ("Train Short,
// Test Long", Press, Smith, Lewis, 2021, section 3) and learned tables of relative
// positions ("Transformer-XL", section 3.3): see settings.h.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/blocks/attention/rotary.h"

namespace mnemon {

// The bias of attention scores, -slope_h |i - j|, for keys before and after the query.
// Query i of T is at key J-T+i. [H, T, J].
at::Tensor AlibiBias(int64_t heads, int64_t queries, int64_t keys,
                     const at::TensorOptions& options);

// That bias for every sequence of a batch, plus `mask` ([T, J], [H*B, T, J] or
// undefined). [H*B, T, J].
at::Tensor MaskedAlibiBias(int64_t heads, int64_t batch, int64_t queries, int64_t keys,
                           const at::Tensor& mask, const at::TensorOptions& options);

// Rotates heads x [B, T, G, K] of tokens position .. position+T-1 (rotary.h).
at::Tensor Turned(const Rotary& rotary, const at::Tensor& x, int64_t position);

// Weights of relative positions.
struct RelativeTables {
  at::Tensor key;         // R [rows, H, K]
  at::Tensor bias;        // S [rows, H]
  at::Tensor query_bias;  // u [H, K]
};

// How far back the tables are read.
struct RelativeReach {
  int64_t zero_row;  // the row of distance 0; distance d has row zero_row - d
  int64_t farthest;  // the largest distance that is not masked
};

// Input of Attend with relative positions: q + u, and the rest as a bias that includes
// the mask.
struct RelativeQuery {
  at::Tensor q;     // [H*B, T, K]
  at::Tensor bias;  // [H*B, T, J]
};

//   q [H*B, T, K]; mask [T, J] or undefined, hides the future and what is beyond the
//   farthest distance. REQUIRES: farthest <= zero_row, farthest < keys.
RelativeQuery AddRelativePositions(const at::Tensor& q, const RelativeTables& tables,
                                   RelativeReach reach, int64_t keys,
                                   const at::Tensor& mask);

}  // namespace mnemon
