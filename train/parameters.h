// SPDX-License-Identifier: MIT
// All weights of a model in one buffer, and their gradients in another: small models
// have many small tensors, and what is done to all of them is then one operation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/io/tensors.h"
#include "model/model.h"

namespace mnemon {

class Parameters {
 public:
  // Replaces every weight of `model` by a slice of the buffer, with gradients on. The
  // model must not replace its weights afterwards.
  explicit Parameters(Model& model);

  const at::Tensor& values() const { return values_; }        // [size]
  const at::Tensor& gradients() const { return gradients_; }  // [size]

  void ZeroGradients();
  // The 2-norm of all gradients, which are scaled so that it is at most `limit`
  // (0 = no limit): by limit / (norm + 1e-6), as PyTorch does. Returns the norm before.
  double ClipGradients(double limit);

  // A buffer of the same layout, all zero, and the part of each weight in such a
  // buffer.
  at::Tensor MakeBuffer() const;
  NamedTensors Slices(const at::Tensor& buffer, const std::string& prefix) const;

 private:
  struct Slice {
    std::string name;
    int64_t begin = 0;
    std::vector<int64_t> shape;
  };
  at::Tensor View(const at::Tensor& buffer, const Slice& slice) const;

  std::vector<Slice> slices_;
  at::Tensor values_;
  at::Tensor gradients_;
};

}  // namespace mnemon
