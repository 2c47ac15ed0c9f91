// SPDX-License-Identifier: MIT
#include "model/blocks/affine_torch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>

#include "base/check.h"
#include "model/compute/tensor_names.h"

namespace mnemon {

NamedTensors::NamedTensors(const std::vector<TensorShape>& shapes) {
  for (const TensorShape& shape : shapes) {
    at_[shape.name] = tensors_.size();
    tensors_.emplace_back(shape.name, at::empty(shape.shape));
  }
}

const at::Tensor& NamedTensors::Get(std::string_view name) const {
  const auto found = at_.find(name);
  MNEMON_CHECK(found != at_.end());
  return tensors_[found->second].second;
}

at::Tensor NamedTensors::Find(std::string_view name) const {
  const auto found = at_.find(name);
  return found == at_.end() ? at::Tensor() : tensors_[found->second].second;
}

Affine NamedTensors::Map(const std::string& base) const {
  return {.weight = Get(names::Weight(base)), .bias = Find(names::Bias(base))};
}

NormTensors NamedTensors::Norm(const std::string& base,
                               const mnemon::Norm& norm) const {
  return {.norm = norm, .tensors = norm.applies() ? Map(base) : Affine{}};
}

void NamedTensors::Visit(const TensorVisitor& visit) {
  for (auto& [name, tensor] : tensors_) visit(name, tensor);
}

at::Tensor Linear(const at::Tensor& x, const Affine& weights) {
  return at::linear(x, weights.weight, weights.bias);
}

at::Tensor LayerNorm(const at::Tensor& x, const Affine& weights, double eps) {
  // Under autocast x may be in bfloat16, the weights are not.
  return at::layer_norm(x.to(weights.weight.scalar_type()), {x.size(-1)},
                        weights.weight, weights.bias, eps);
}

at::Tensor Normed(const at::Tensor& x, const NormTensors& norm) {
  if (!norm.norm.applies()) return x;
  const at::Tensor& weight = norm.tensors.weight;
  const at::Tensor gain = norm.norm.one_plus ? weight + 1 : weight;
  if (norm.norm.kind == mnemon::Norm::Kind::kLayer) {
    return LayerNorm(x, {.weight = gain, .bias = norm.tensors.bias}, norm.norm.eps);
  }
  const at::Tensor z = x.to(weight.scalar_type());
  return z * at::rsqrt(at::mean(z * z, {-1}, /*keepdim=*/true) + norm.norm.eps) * gain;
}

}  // namespace mnemon
