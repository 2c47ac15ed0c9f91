// SPDX-License-Identifier: MIT
// All weights of a model in one buffer, so that one operation acts on all of them:
// small models have many small tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/compute/gradient/flat_layout.h"
#include "model/sequence/model.h"
#include "model/sequence/tensors.h"

namespace mnemon {

class Parameters {
 public:
  // Copies layout and values of `model`'s weights, on their device.
  explicit Parameters(Model& model);

  const at::Tensor& values() const { return values_; }  // [size]

  // Replaces every weight of `model`, which has the same configuration, by its slice of
  // the values, and its gradient by a slice of a buffer [size], which is returned.
  // Models bound to the same Parameters share weights, but each has its own gradients.
  at::Tensor Bind(Model& model) const;

  // The same without gradients.
  void Share(Model& model) const;

  // Positions of the weights in values(), by name.
  FlatLayout Layout() const;

  // A buffer [size] of zeros, and the slice of each weight in such a buffer.
  at::Tensor MakeBuffer() const;
  NamedTensorList Slices(const at::Tensor& buffer, const std::string& prefix) const;

 private:
  struct Slice {
    std::string name;
    int64_t begin = 0;
    std::vector<int64_t> shape;
  };
  at::Tensor View(const at::Tensor& buffer, const Slice& slice) const;

  std::vector<Slice> slices_;
  at::Tensor values_;
};

}  // namespace mnemon
