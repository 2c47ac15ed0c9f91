// SPDX-License-Identifier: MIT
// The tensors of a model as a list, in the order of the file: the required contents of
// a checkpoint, known without making the model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/compute/norm.h"
#include "model/compute/packed_weights.h"
#include "model/compute/weights.h"

namespace mnemon {

// A base stands for its .weight and its .bias.
class TensorList {
 public:
  void Tensor(std::string name, std::vector<int64_t> shape);
  // base.weight [rows, width], a table in which rows are looked up.
  void Table(const std::string& base, int64_t rows, int64_t width);
  // A linear map, base.weight [outputs, inputs]; with `bias`, base.bias.
  void Linear(const std::string& base, int64_t outputs, int64_t inputs, bool bias,
              const MatrixUse& use = {});
  void Norm(const std::string& base, int64_t width, const mnemon::Norm& norm = {});

  std::vector<TensorShape> Take() { return std::move(tensors_); }

 private:
  std::vector<TensorShape> tensors_;
};

}  // namespace mnemon
