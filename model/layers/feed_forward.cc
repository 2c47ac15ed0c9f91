// SPDX-License-Identifier: MIT
#include "model/layers/feed_forward.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>

#include "model/weights/tensor_names.h"

namespace mnemon {

FeedForward MakeFeedForward(const ModelConfig& c) {
  FeedForward weights{.activation = c.activation,
                      .norm = MakeNorm(c.d_model),
                      .in = MakeLinear(c.d_ff, c.d_model, HasBias::kYes),
                      .factor = {},
                      .out = MakeLinear(c.d_model, c.d_ff, HasBias::kYes)};
  if (c.gated) weights.factor = MakeLinear(c.d_ff, c.d_model, HasBias::kYes);
  return weights;
}

void VisitFeedForward(const WeightVisitor& visit, int64_t layer, FeedForward& weights) {
  VisitAffine(visit, names::Layer(layer, names::kFfNorm), weights.norm);
  VisitAffine(visit, names::Layer(layer, names::kFfIn), weights.in);
  VisitAffine(visit, names::Layer(layer, names::kFfFactor), weights.factor);
  VisitAffine(visit, names::Layer(layer, names::kFfOut), weights.out);
}

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  return activation == Activation::kGelu ? at::gelu(x) : at::relu(x);
}

at::Tensor AddFeedForward(const at::Tensor& x, const FeedForward& weights,
                          const Dropout& drop) {
  const at::Tensor z = LayerNorm(x, weights.norm);
  at::Tensor hidden = Activate(Linear(z, weights.in), weights.activation);
  if (weights.factor.weight.defined()) hidden = hidden * Linear(z, weights.factor);
  return x + drop(Linear(drop(hidden, DropoutKind::kHidden), weights.out),
                  DropoutKind::kFeedForwardOutput);
}

}  // namespace mnemon
