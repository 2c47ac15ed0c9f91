// SPDX-License-Identifier: MIT
// Relative positions as learned tables ("Transformer-XL", section 3.3, with tables R
// and S in place of projected sinusoids):
//   s(i,j) = c ((q_i + u).k_j + q_i.R[d] + S[d]),  d = distance of key j from query i
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/layers/affine.h"

namespace mnemon {

struct RelativePositions {
  at::Tensor key;         // R [rows, H, K]
  at::Tensor bias;        // S [rows, H]
  at::Tensor query_bias;  // u [H, K]
};

RelativePositions MakeRelativePositions(int64_t rows, int64_t heads, int64_t width);
void VisitRelativePositions(const WeightVisitor& visit, int64_t layer,
                            RelativePositions& weights);

// How far back the tables are read.
struct RelativeReach {
  int64_t zero_row;  // the row of distance 0; distance d has row zero_row - d
  int64_t farthest;  // the largest distance that is not masked
};

// What Attend takes for those scores: q + u and the rest as a bias, mask included.
struct RelativeQuery {
  at::Tensor q;     // [H*B, T, K]
  at::Tensor bias;  // [H*B, T, J]
};

//   q [H*B, T, K]; mask [T, J] or undefined, hides the future and what is beyond the
//   farthest distance. REQUIRES: farthest <= zero_row, farthest < keys.
RelativeQuery AddRelativePositions(const at::Tensor& q,
                                   const RelativePositions& weights,
                                   RelativeReach reach, int64_t keys,
                                   const at::Tensor& mask);

}  // namespace mnemon
