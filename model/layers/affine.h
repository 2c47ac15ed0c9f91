// SPDX-License-Identifier: MIT
// Linear maps and layer norms: their weights, their names, and what they compute.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

namespace mnemon {

// See TensorVisitor in model/sequence/model.h.
using WeightVisitor = std::function<void(const std::string& name, at::Tensor& tensor)>;

// A linear map y = W x + b, or the gain and bias of a layer norm.
struct Affine {
  at::Tensor weight;  // [out, in]; norm: [D]
  at::Tensor bias;    // [out]; norm: [D]; undefined: none
};

enum class HasBias { kNo, kYes };

// Uninitialised.
Affine MakeLinear(int64_t out, int64_t in, HasBias bias);
Affine MakeNorm(int64_t width);

// Visits base.weight and base.bias, as far as they are there.
void VisitAffine(const WeightVisitor& visit, const std::string& base, Affine& affine);
// Visits `tensor` unless it is undefined.
void VisitTensor(const WeightVisitor& visit, const std::string& name,
                 at::Tensor& tensor);

// x [..., in] -> [..., out].
at::Tensor Linear(const at::Tensor& x, const Affine& weights);
// Over the last dimension, eps 1e-5. x [..., D] -> the same shape, in the type of the
// weights.
at::Tensor LayerNorm(const at::Tensor& x, const Affine& weights);

}  // namespace mnemon
