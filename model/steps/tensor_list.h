// SPDX-License-Identifier: MIT
// The tensors of an architecture as a list, in the order of the file: what a checkpoint
// must hold, known without making the model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/config/config.h"
#include "model/weights/weights.h"

namespace mnemon {

// Names as in model/weights/tensor_names.h. A base stands for its .weight and .bias.
class TensorList {
 public:
  // `config` must outlive it.
  explicit TensorList(const ModelConfig& config) : config_(config) {}

  static std::string Layer(int64_t i, const char* part);

  void Tensor(std::string name, std::vector<int64_t> shape);
  void Matrix(const std::string& base, int64_t outputs, int64_t inputs);  // no bias
  void Linear(const std::string& base, int64_t outputs, int64_t inputs);
  void Norm(const std::string& base, int64_t width);
  // Token embedding, and positions where they are learned.
  void Embedding();
  // R [rows, H, K], S [rows, H] unless it is tied, u [H, K].
  void RelativePositions(int64_t layer, int64_t rows);
  void FeedForward(int64_t layer);
  // The norm before the head, and the head unless it is tied.
  void Head();

  std::vector<TensorShape> Take() { return std::move(tensors_); }

 private:
  const ModelConfig& config_;
  std::vector<TensorShape> tensors_;
};

}  // namespace mnemon
