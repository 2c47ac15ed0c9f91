// SPDX-License-Identifier: MIT
// The feed-forward sub-layer, x + drop(FFN(LN(x))):
//   FFN(z) = W2 drop(act(W1 z + b1)) + b2
// and gated, "GLU Variants Improve Transformer" (Shazeer, 2020), equation 6, here with
// biases:
//   FFN(z) = W2 drop(act(W1 z + b1) * (W3 z + b3)) + b2
// act is relu, or gelu(x) = x Phi(x) with the exact normal distribution Phi ("Gaussian
// Error Linear Units", Hendrycks and Gimpel, 2016).
#pragma once

#include "model/config/config.h"
#include "model/layers/affine.h"
#include "model/layers/dropout.h"

namespace mnemon {

struct FeedForward {
  Activation activation;
  Affine norm;    // [D]
  Affine in;      // W1 [F, D]
  Affine factor;  // W3 [F, D]; undefined unless gated
  Affine out;     // W2 [D, F]
};

FeedForward MakeFeedForward(const ModelConfig& config);
void VisitFeedForward(const WeightVisitor& visit, int64_t layer, FeedForward& weights);

at::Tensor Activate(const at::Tensor& x, Activation activation);

// x [..., D] -> the same shape, residual included.
at::Tensor AddFeedForward(const at::Tensor& x, const FeedForward& weights,
                          const Dropout& drop);

}  // namespace mnemon
