// SPDX-License-Identifier: MIT
#include "model/arch/step_weights.h"

#include <cmath>

#include "base/check.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

const TensorView* StepWeights::Find(std::string_view name) const {
  for (const TensorView& view : views_) {
    if (view.name == name) return &view;
  }
  return nullptr;
}

const TensorView& StepWeights::Get(std::string_view name) const {
  const TensorView* view = Find(name);
  MNEMON_CHECK(view != nullptr);
  return *view;
}

MatrixView StepWeights::Linear(const std::vector<std::string>& bases) {
  std::vector<PlainMatrix> parts;
  int64_t inputs = 0;
  for (const std::string& base : bases) {
    const TensorView& weight = Get(names::Weight(base));
    const TensorView* bias = Find(names::Bias(base));
    inputs = weight.shape[1];
    parts.push_back({.weights = weight.data,
                     .bias = bias == nullptr ? nullptr : bias->data,
                     .outputs = weight.shape[0]});
  }
  return packed_.Pack(parts, inputs);
}

NormView StepWeights::Norm(const std::string& base) const {
  return {.gain = Get(names::Weight(base)).data, .bias = Get(names::Bias(base)).data};
}

StepFeedForward MakeStepFeedForward(const ModelConfig& config, int64_t layer,
                                    StepWeights& weights) {
  const auto name = [layer](const char* part) { return names::Layer(layer, part); };
  StepFeedForward made{
      .norm = weights.Norm(name(names::kFfNorm)),
      .in = weights.Linear({name(names::kFfIn)}),
      .factor = {},
      .out = weights.Linear({name(names::kFfOut)}),
      .gated = config.gated,
      .act = config.activation == Activation::kGelu ? Act::kGelu : Act::kRelu};
  if (config.gated) made.factor = weights.Linear({name(names::kFfFactor)});
  return made;
}

void AddFeedForward(StepKernels& k, const StepFeedForward& weights, int64_t rows,
                    ConstRows x, Rows hidden, Rows out) {
  k.Linear({.rows = rows,
            .in = x,
            .norm = weights.norm,
            .weights = weights.in,
            .act = weights.act,
            .gate = weights.gated ? &weights.factor : nullptr,
            .out = hidden});
  k.Sync();
  k.Linear(
      {.rows = rows, .in = hidden, .weights = weights.out, .residual = x, .out = out});
  k.Sync();
}

StepFrame MakeStepFrame(const ModelConfig& config, StepWeights& weights) {
  StepFrame frame{
      .embed = weights.Get(names::Weight(names::kEmbed)).data,
      .width = config.d_model,
      .scale = config.embed_scale
                   ? static_cast<float>(std::sqrt(static_cast<double>(config.d_model)))
                   : 1.0f,
      .norm = weights.Norm(names::kNorm),
      .head = {}};
  // The embedding is the head when they are tied, and then has no bias.
  frame.head = weights.Linear({config.tie_head ? names::kEmbed : names::kHead});
  return frame;
}

void EmbedTokens(StepKernels& k, const StepFrame& frame, int64_t rows,
                 const int32_t* ids, const float* const* positions, Rows x) {
  k.Embed({.rows = rows,
           .width = frame.width,
           .table = frame.embed,
           .scale = frame.scale,
           .ids = ids,
           .positions = positions,
           .out = x});
}

void WriteLogits(StepKernels& k, const StepFrame& frame, ConstRows x,
                 const std::vector<int32_t>& wanted, float* logits) {
  if (wanted.empty()) return;
  k.Linear({.rows = static_cast<int64_t>(wanted.size()),
            .in = x,
            .pick = wanted.data(),
            .norm = frame.norm,
            .weights = frame.head,
            .out = {logits, frame.head.outputs}});
}

}  // namespace mnemon
