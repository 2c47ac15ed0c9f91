// SPDX-License-Identifier: MIT
// A feed-forward block in sequence forms; see settings.h. Training applies dropout
// after the activation and the factor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "model/blocks/affine_torch.h"
#include "model/blocks/dropout_torch.h"
#include "model/blocks/feed_forward/settings.h"
#include "model/blocks/step_linear_torch.h"

namespace mnemon {

at::Tensor Activate(const at::Tensor& x, Activation activation);

// z [..., D], normed -> y of the same shape, before its dropout.
at::Tensor Forward(const FeedForward& feed, const NamedTensors& weights,
                   const std::string& base, const at::Tensor& z, const Dropout& drop);

// The same token by token, for exactly `steps` calls with z [batch, D].
class FeedForwardSteps {
 public:
  FeedForwardSteps(const FeedForward& feed, const NamedTensors& weights,
                   const std::string& base, int64_t steps, int64_t batch);

  at::Tensor operator()(const at::Tensor& z, const Dropout& drop);

 private:
  const Activation activation_;
  StepLinear in_;
  std::optional<StepLinear> factor_;  // if gated
  StepLinear out_;
};

}  // namespace mnemon
