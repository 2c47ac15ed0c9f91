// SPDX-License-Identifier: MIT
// Plain causal transformer, "Attention Is All You Need" (Vaswani et al., 2017),
// equation 1 and section 3.5, with norms before the sub-layers. Biases on all four
// projections. Positions are sinusoidal, learned, linear biases or relative tables as
// in Transformer-XL, with a row for every distance of the context.
#include "model/families/families.h"
#include "model/families/field_check.h"
#include "model/families/frame.h"
#include "model/families/table.h"

namespace mnemon {
namespace {

absl::Status Validate(const ModelConfig& config) {
  return FieldCheck(config, {"positions", "position_kind", "embed_scale", "tie_head",
                             "activation", "gated"})
      .status();
}

ModelDescription Describe(const ModelConfig& c) {
  ModelDescription model = FrameOf(c);
  model.context = c.positions;
  Attention attention{
      .heads = c.heads,
      .groups = c.heads,
      .width = c.head_width(),
      .biases = {.query = true, .key = true, .value = true, .output = true}};
  if (c.position_kind == PositionKind::kAlibi) attention.positions = Alibi{};
  if (c.position_kind == PositionKind::kRelative) {
    attention.positions = RelativePositions{
        .rows = c.positions, .zero_row = c.positions - 1, .past = c.positions};
  }
  AddLayers(c, Norm{}, attention, model);
  return model;
}

ModelConfig Usual() {
  return {.architecture = "causal",
          .position_kind = PositionKind::kLearned,
          .tie_head = true};
}

ModelConfig Reference() { return ReferenceTransformer("causal"); }

std::vector<ModelConfig> Variants() {
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

}  // namespace

Family CausalFamily() {
  return {.name = "causal",
          .summary = "plain causal transformer with a key and value cache",
          .validate = Validate,
          .describe = Describe,
          .usual = Usual,
          .reference = Reference,
          .variants = Variants};
}

}  // namespace mnemon
