// SPDX-License-Identifier: MIT
#include <string>

#include "model/steps/causal_step.h"
#include "model/steps/field_check.h"
#include "model/steps/tensor_list.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

absl::Status ValidateCausal(const ModelConfig& config) {
  return FieldCheck(config, {"positions", "position_kind", "embed_scale", "tie_head",
                             "activation", "gated"})
      .status();
}

std::vector<TensorShape> CausalTensors(const ModelConfig& c) {
  TensorList list(c);
  list.Embedding();
  for (int64_t i = 0; i < c.layers; ++i) {
    list.Norm(list.Layer(i, names::kAttnNorm), c.d_model);
    for (const char* part : {names::kQuery, names::kKey, names::kValue}) {
      list.Linear(list.Layer(i, part), c.d_model, c.d_model);
    }
    if (c.position_kind == PositionKind::kRelative) {
      list.RelativePositions(i, c.positions);
    }
    list.Linear(list.Layer(i, names::kOutput), c.d_model, c.d_model);
    list.FeedForward(i);
  }
  list.Head();
  return list.Take();
}

StateSpec CausalCarry(const ModelConfig& c) {
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    for (const char* part : {".key", ".value"}) {
      spec.entries.push_back({.name = "layer" + std::to_string(i) + part,
                              .shape = {c.heads, c.head_width()},
                              .growth = Growth::kAppend,
                              .capacity = c.positions});
    }
  }
  return spec;
}

std::vector<ModelConfig> CausalVariants() {
  const auto variant = [](PositionKind kind, int64_t heads = 2) {
    return ModelConfig{.architecture = "causal",
                       .d_model = 4 * heads,
                       .heads = heads,
                       .layers = 2,
                       .d_ff = 12,
                       .vocab = 7,
                       .positions = 13,
                       .position_kind = kind,
                       .dropout = 0.2};
  };
  ModelConfig sinusoidal = variant(PositionKind::kSinusoidal);
  sinusoidal.embed_scale = true;
  ModelConfig tied = variant(PositionKind::kLearned);
  tied.tie_head = true;
  tied.activation = Activation::kGelu;
  ModelConfig gated = variant(PositionKind::kRelative);
  gated.gated = true;
  gated.tie_head = gated.embed_scale = true;
  ModelConfig gated_gelu = variant(PositionKind::kNone);
  gated_gelu.gated = true;
  gated_gelu.activation = Activation::kGelu;
  return {sinusoidal,
          variant(PositionKind::kLearned),
          variant(PositionKind::kNone),
          variant(PositionKind::kAlibi, 3),
          variant(PositionKind::kRelative, 3),
          tied,
          gated,
          gated_gelu};
}

}  // namespace mnemon
