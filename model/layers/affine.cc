// SPDX-License-Identifier: MIT
#include "model/layers/affine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>

#include "model/weights/tensor_names.h"

namespace mnemon {

Affine MakeLinear(int64_t out, int64_t in, HasBias bias) {
  Affine affine{.weight = at::empty({out, in}), .bias = {}};
  if (bias == HasBias::kYes) affine.bias = at::empty({out});
  return affine;
}

Affine MakeNorm(int64_t width) {
  return {.weight = at::empty({width}), .bias = at::empty({width})};
}

void VisitAffine(const WeightVisitor& visit, const std::string& base, Affine& affine) {
  VisitTensor(visit, names::Weight(base), affine.weight);
  VisitTensor(visit, names::Bias(base), affine.bias);
}

void VisitTensor(const WeightVisitor& visit, const std::string& name,
                 at::Tensor& tensor) {
  if (tensor.defined()) visit(name, tensor);
}

at::Tensor Linear(const at::Tensor& x, const Affine& weights) {
  return at::linear(x, weights.weight, weights.bias);
}

at::Tensor LayerNorm(const at::Tensor& x, const Affine& weights) {
  // Under autocast x may be in bfloat16, the weights are not.
  return at::layer_norm(x.to(weights.weight.scalar_type()), {x.size(-1)},
                        weights.weight, weights.bias, 1e-5);
}

}  // namespace mnemon
