// SPDX-License-Identifier: MIT
// Multi-head attention of a run of queries over cached keys ("Attention Is All You
// Need", equation 1), optionally with relative positions ("Transformer-XL", section
// 3.3). Heads are the outer part of the batch, so that per-head tables need no copy.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/blocks/dropout_torch.h"

namespace mnemon {

// x [B, T, D] -> [H*B, T, K].
at::Tensor SplitHeads(const at::Tensor& x, int64_t heads);
// Repeats each of G heads for all heads that share it: [G*B, J, K] -> [H*B, J, K].
at::Tensor ShareHeads(const at::Tensor& x, int64_t groups, int64_t sharing);
// x [H*B, T, K] -> [B, T, D].
at::Tensor MergeHeads(const at::Tensor& x, int64_t heads);

// What queries may see: query i of T stands at key J-T+i, and sees itself and at most
// `reach` keys before it. [T, J], 0 where visible, -infinity where not; undefined when
// everything is visible.
at::Tensor CausalMask(int64_t queries, int64_t keys, int64_t reach,
                      const at::TensorOptions& options);

// q_i.R[d] + S[d] at distance d = (J-T+i) - j, placed at (i, j). Pairs in the future or
// beyond the rows given hold arbitrary finite values and must be masked.
//   q [H*B, T, K]; relative_key R [n, H, K], relative_bias S [n, H], farthest row
//   first, the last row is distance 0, n <= J  ->  [H*B, T, J]
at::Tensor RelativeScores(const at::Tensor& q, const at::Tensor& relative_key,
                          const at::Tensor& relative_bias, int64_t keys);

// What is added to the attention scores of a call, and queries that see no key.
struct ScoreMask {
  at::Tensor bias;   // [T, J] or [H*B, T, J]; undefined: nothing
  at::Tensor empty;  // [T, 1] or [H*B, T, 1], boolean; undefined: no such query
  double cap = 0;    // first: cap tanh(score / cap); 0: none
};

// softmax(q k^T / sqrt(K) + bias); zeros for a query that sees no key. Float32 if the
// scores are in bfloat16.
//   q [H*B, T, K], k [H*B, J, K] -> [H*B, T, J]
at::Tensor AttentionWeights(const at::Tensor& q, const at::Tensor& k,
                            const ScoreMask& mask);

struct Attended {
  at::Tensor mixed;    // [H*B, T, K]
  at::Tensor weights;  // [H*B, T, J], before dropout
};

// drop(softmax(q k^T / sqrt(K) + bias)) v.
//   q [H*B, T, K], k and v [H*B, J, K]
Attended Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const ScoreMask& mask, const Dropout& drop);

// weights [H*B, T, J] -> [B, H, T, J].
at::Tensor MapsOfBatch(const at::Tensor& weights, int64_t heads);

}  // namespace mnemon
