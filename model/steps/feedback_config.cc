// SPDX-License-Identifier: MIT
#include <string>

#include "base/strings.h"
#include "model/steps/feedback_step.h"
#include "model/steps/field_check.h"
#include "model/steps/tensor_list.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

absl::Status ValidateFeedback(const ModelConfig& config) {
  FieldCheck check(
      config, {"positions", "position_kind", "mem_len", "projection", "position_bias"});
  check.Require(config.position_kind == PositionKind::kRelative, "position_kind",
                "relative");
  check.Require(config.mem_len <= config.positions, "mem_len",
                StrCat("at most positions (", config.positions, ")"));
  return check.status();
}

std::vector<TensorShape> FeedbackTensors(const ModelConfig& c) {
  TensorList list(c);
  const bool shared = c.projection == Projection::kShared;
  list.Embedding();
  list.Tensor(names::kMemoryMix, {c.layers + 1});
  if (shared) {
    list.Matrix(names::kMemoryKey, c.d_model, c.d_model);
    list.Matrix(names::kMemoryValue, c.d_model, c.d_model);
  }
  for (int64_t i = 0; i < c.layers; ++i) {
    list.Norm(list.Layer(i, names::kAttnNorm), c.d_model);
    list.Matrix(list.Layer(i, names::kQuery), c.d_model, c.d_model);
    if (!shared) {
      list.Matrix(list.Layer(i, names::kKey), c.d_model, c.d_model);
      list.Linear(list.Layer(i, names::kValue), c.d_model, c.d_model);
    }
    list.RelativePositions(i, c.positions);
    list.Linear(list.Layer(i, names::kOutput), c.d_model, c.d_model);
    list.FeedForward(i);
  }
  list.Head();
  return list.Take();
}

Growth FeedbackGrowth(const ModelConfig& c) {
  return c.mem_len > 0 ? Growth::kRing : Growth::kAppend;
}

int64_t FeedbackCapacity(const ModelConfig& c) {
  return c.mem_len > 0 ? c.mem_len : c.positions + 1;
}

StateSpec FeedbackCarry(const ModelConfig& c) {
  return {.entries = {{.name = "memory",
                       .shape = {c.d_model},
                       .growth = FeedbackGrowth(c),
                       .capacity = FeedbackCapacity(c)}}};
}

std::vector<ModelConfig> FeedbackVariants() {
  ModelConfig base{.architecture = "feedback",
                   .d_model = 8,
                   .heads = 2,
                   .layers = 2,
                   .d_ff = 12,
                   .vocab = 7,
                   .positions = 13,
                   .position_kind = PositionKind::kRelative,
                   .dropout = 0.2};
  std::vector<ModelConfig> variants;
  for (Projection projection : {Projection::kPerLayer, Projection::kShared}) {
    for (PositionBias bias : {PositionBias::kFree, PositionBias::kTied}) {
      variants.push_back(base);
      variants.back().projection = projection;
      variants.back().position_bias = bias;
    }
  }
  // Attention to the last memories alone.
  for (const int64_t limit : {2, 5}) {
    variants.push_back(base);
    variants.back().mem_len = limit;
    variants.back().projection =
        limit == 2 ? Projection::kShared : Projection::kPerLayer;
  }
  return variants;
}

}  // namespace mnemon
