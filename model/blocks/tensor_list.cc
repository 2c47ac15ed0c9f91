// SPDX-License-Identifier: MIT
#include "model/blocks/tensor_list.h"

#include "model/compute/tensor_names.h"

namespace mnemon {

void TensorList::Tensor(std::string name, std::vector<int64_t> shape) {
  tensors_.push_back({.name = std::move(name), .shape = std::move(shape)});
}

void TensorList::Table(const std::string& base, int64_t rows, int64_t width) {
  Tensor(names::Weight(base), {rows, width});
}

void TensorList::Linear(const std::string& base, int64_t outputs, int64_t inputs,
                        bool bias, const MatrixUse& use) {
  Tensor(names::Weight(base), {outputs, inputs});
  tensors_.back().quantises =
      MatrixFormat(WeightFormat::kInt8, inputs, use) == WeightFormat::kInt8;
  if (bias) Tensor(names::Bias(base), {outputs});
}

void TensorList::Norm(const std::string& base, int64_t width,
                      const mnemon::Norm& norm) {
  if (norm.stored()) Tensor(names::Weight(base), {width});
  if (norm.biased()) Tensor(names::Bias(base), {width});
}

}  // namespace mnemon
