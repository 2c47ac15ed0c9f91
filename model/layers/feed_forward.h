// SPDX-License-Identifier: MIT
// The feed-forward sub-layer: x + drop(FFN(LN(x))), FFN(z) = W2 drop(relu(W1 z + b1)) +
// b2.
#pragma once

#include "model/layers/affine.h"
#include "model/layers/dropout.h"

namespace mnemon {

struct FeedForward {
  Affine norm;  // [D]
  Affine in;    // [F, D]
  Affine out;   // [D, F]
};

FeedForward MakeFeedForward(int64_t width, int64_t hidden);
void VisitFeedForward(const WeightVisitor& visit, int64_t layer, FeedForward& weights);

// x [..., D] -> the same shape, residual included.
at::Tensor AddFeedForward(const at::Tensor& x, const FeedForward& weights,
                          const Dropout& drop);

}  // namespace mnemon
