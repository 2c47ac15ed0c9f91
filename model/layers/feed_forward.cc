// SPDX-License-Identifier: MIT
#include "model/layers/feed_forward.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/relu.h>

#include "model/tensor_names.h"

namespace mnemon {

FeedForward MakeFeedForward(int64_t width, int64_t hidden) {
  return {.norm = MakeNorm(width),
          .in = MakeLinear(hidden, width, HasBias::kYes),
          .out = MakeLinear(width, hidden, HasBias::kYes)};
}

void VisitFeedForward(const WeightVisitor& visit, int64_t layer, FeedForward& weights) {
  VisitAffine(visit, names::Layer(layer, names::kFfNorm), weights.norm);
  VisitAffine(visit, names::Layer(layer, names::kFfIn), weights.in);
  VisitAffine(visit, names::Layer(layer, names::kFfOut), weights.out);
}

at::Tensor AddFeedForward(const at::Tensor& x, const FeedForward& weights,
                          const Dropout& drop) {
  const at::Tensor hidden = at::relu(Linear(LayerNorm(x, weights.norm), weights.in));
  return x + drop(Linear(drop(hidden), weights.out));
}

}  // namespace mnemon
