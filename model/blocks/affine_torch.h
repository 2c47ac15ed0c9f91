// SPDX-License-Identifier: MIT
// Named weights of sequence forms, and the functions of linear maps and norms.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/compute/norm.h"
#include "model/compute/weights.h"

namespace mnemon {

// A linear map y = W x + b, or the gain and bias of a layer norm.
struct Affine {
  at::Tensor weight;  // [out, in]; norm: [D]
  at::Tensor bias;    // [out]; norm: [D]; undefined: none
};

// A norm with its tensors, which are undefined if nothing is applied.
struct NormTensors {
  mnemon::Norm norm = mnemon::Norm::None();
  Affine tensors = {};
};

// Called once per tensor. The visitor may replace the tensor by one of the same shape.
using TensorVisitor = std::function<void(const std::string& name, at::Tensor& tensor)>;

class NamedTensors {
 public:
  // Uninitialised, float32 on the CPU, in the order of `shapes`.
  explicit NamedTensors(const std::vector<TensorShape>& shapes);

  // REQUIRES: the tensor exists.
  const at::Tensor& Get(std::string_view name) const;
  // Undefined if there is no such tensor.
  at::Tensor Find(std::string_view name) const;
  // base.weight, and base.bias if it exists.
  Affine Map(const std::string& base) const;
  NormTensors Norm(const std::string& base, const mnemon::Norm& norm) const;

  // Visits all tensors in order.
  void Visit(const TensorVisitor& visit);

 private:
  std::vector<std::pair<std::string, at::Tensor>> tensors_;
  std::map<std::string, size_t, std::less<>> at_;
};

// x [..., in] -> [..., out].
at::Tensor Linear(const at::Tensor& x, const Affine& weights);
// Over the last dimension. x [..., D] -> the same shape, in the type of the weights.
at::Tensor LayerNorm(const at::Tensor& x, const Affine& weights, double eps = 1e-5);
// The norm of x; x itself if nothing is applied.
at::Tensor Normed(const at::Tensor& x, const NormTensors& norm);

}  // namespace mnemon
