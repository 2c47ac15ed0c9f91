// SPDX-License-Identifier: MIT
#include "model/blocks/feed_forward/forward_torch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

namespace mnemon {

at::Tensor Activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
    case Activation::kTanh:
      break;
  }
  return at::tanh(x);
}

at::Tensor Forward(const FeedForward& feed, const NamedTensors& weights,
                   const std::string& base, const at::Tensor& z, const Dropout& drop) {
  at::Tensor hidden = Activate(Linear(z, weights.Map(base + ".in")), feed.activation);
  if (feed.gated) hidden = hidden * Linear(z, weights.Map(base + ".factor"));
  return Linear(drop(hidden, DropoutKind::kHidden), weights.Map(base + ".out"));
}

FeedForwardSteps::FeedForwardSteps(const FeedForward& feed, const NamedTensors& weights,
                                   const std::string& base, int64_t steps,
                                   int64_t batch)
    : activation_(feed.activation),
      in_(weights.Map(base + ".in"), steps, batch),
      out_(weights.Map(base + ".out"), steps, batch) {
  if (feed.gated) factor_.emplace(weights.Map(base + ".factor"), steps, batch);
}

at::Tensor FeedForwardSteps::operator()(const at::Tensor& z, const Dropout& drop) {
  at::Tensor hidden = Activate(in_(z), activation_);
  if (factor_) hidden = hidden * (*factor_)(z);
  return out_(drop(hidden, DropoutKind::kHidden));
}

}  // namespace mnemon
