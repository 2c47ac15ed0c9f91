// SPDX-License-Identifier: MIT
#include "model/blocks/step_linear_torch.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"

namespace mnemon {
namespace {

struct BiasOfAllSteps : torch::autograd::Function<BiasOfAllSteps> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& weight,
                            const c10::optional<at::Tensor>& bias,
                            const at::Tensor& inputs) {
    // Not as a saved variable: the inputs are written after this.
    context->saved_data["inputs"] = inputs;
    const int64_t out = weight.size(0);
    return (bias ? *bias : at::zeros({out}, weight.options()))
        .expand({inputs.size(0), inputs.size(1), out})
        .variable_data();
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& grads) {
    const at::Tensor inputs = context->saved_data["inputs"].toTensor().flatten(0, 1);
    const at::Tensor dy = grads[0].flatten(0, 1);  // [steps * B, out]
    const bool has_bias = context->needs_input_grad(1);
    return {at::mm(dy.t(), inputs), has_bias ? dy.sum(0) : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

StepLinear::StepLinear(const Affine& weights, int64_t steps, int64_t batch)
    : weight_(weights.weight.detach().t()) {
  const at::Tensor& weight = weights.weight;
  inputs_ = at::empty({steps, batch, weight.size(1)}, weight.options());
  bias_slices_ = BiasOfAllSteps::apply(weight,
                                       weights.bias.defined()
                                           ? c10::optional<at::Tensor>(weights.bias)
                                           : c10::nullopt,
                                       inputs_)
                     .unbind(0);
}

at::Tensor StepLinear::operator()(const at::Tensor& x) {
  MNEMON_CHECK(step_ < bias_slices_.size());
  const at::Tensor& bias = bias_slices_[step_];
  if (bias.requires_grad()) {
    at::NoGradGuard no_grad;
    inputs_.select(0, step_).copy_(x);
  }
  ++step_;
  return at::addmm(bias, x, weight_);
}

}  // namespace mnemon
