// SPDX-License-Identifier: MIT
#include "model/steps/tensor_list.h"

#include "model/weights/tensor_names.h"

namespace mnemon {

std::string TensorList::Layer(int64_t i, const char* part) {
  return names::Layer(i, part);
}

void TensorList::Tensor(std::string name, std::vector<int64_t> shape) {
  tensors_.push_back({std::move(name), std::move(shape)});
}

void TensorList::Matrix(const std::string& base, int64_t outputs, int64_t inputs) {
  Tensor(names::Weight(base), {outputs, inputs});
}

void TensorList::Linear(const std::string& base, int64_t outputs, int64_t inputs) {
  Matrix(base, outputs, inputs);
  Tensor(names::Bias(base), {outputs});
}

void TensorList::Norm(const std::string& base, int64_t width) {
  Tensor(names::Weight(base), {width});
  Tensor(names::Bias(base), {width});
}

void TensorList::Embedding() {
  Matrix(names::kEmbed, config_.vocab, config_.d_model);
  if (config_.position_kind == PositionKind::kLearned) {
    Matrix(names::kPositions, config_.positions, config_.d_model);
  }
}

void TensorList::RelativePositions(int64_t layer, int64_t rows) {
  const int64_t heads = config_.heads, width = config_.head_width();
  Tensor(Layer(layer, names::kRelativeKey), {rows, heads, width});
  if (config_.position_bias == PositionBias::kFree) {
    Tensor(Layer(layer, names::kRelativeBias), {rows, heads});
  }
  Tensor(Layer(layer, names::kQueryBias), {heads, width});
}

void TensorList::FeedForward(int64_t layer) {
  Norm(Layer(layer, names::kFfNorm), config_.d_model);
  Linear(Layer(layer, names::kFfIn), config_.d_ff, config_.d_model);
  if (config_.gated) {
    Linear(Layer(layer, names::kFfFactor), config_.d_ff, config_.d_model);
  }
  Linear(Layer(layer, names::kFfOut), config_.d_model, config_.d_ff);
}

void TensorList::Head() {
  Norm(names::kNorm, config_.d_model);
  if (!config_.tie_head) Linear(names::kHead, config_.vocab, config_.d_model);
}

}  // namespace mnemon
