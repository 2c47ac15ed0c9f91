// SPDX-License-Identifier: MIT
// The encoder of "Attention Is All You Need" (Vaswani et al., 2017), sections 3.1 to
// 3.5, with norms before the sub-layers, and a head that classifies every position. No
// biases in the attention, no norm on the stack.
#include "model/families/families.h"
#include "model/families/field_check.h"
#include "model/families/frame.h"
#include "model/families/table.h"

namespace mnemon {
namespace {

absl::Status Validate(const ModelConfig& config) {
  FieldCheck check(config, {"positions", "position_kind", "embed_scale", "activation",
                            "gated", "mask", "norm_logits"});
  check.Require(config.position_kind != PositionKind::kRelative, "position_kind",
                "none, sinusoidal, learned or alibi");
  return check.status();
}

ModelDescription Describe(const ModelConfig& c) {
  ModelDescription model = FrameOf(c);
  model.context = c.positions;
  model.whole_sequences = true;
  model.embedding.drops = true;
  model.head.classifier =
      Classifier{.activation = c.activation, .norm_logits = c.norm_logits};
  Attention attention{
      .heads = c.heads,
      .groups = c.heads,
      .width = c.head_width(),
      .sees = c.mask == Mask::kCausal ? Attention::Sees::kPast : Attention::Sees::kAll};
  if (c.position_kind == PositionKind::kAlibi) attention.positions = Alibi{};
  AddLayers(c, Norm{}, attention, model);
  return model;
}

ModelConfig Usual() {
  return {.architecture = "encoder", .position_kind = PositionKind::kSinusoidal};
}

ModelConfig Reference() { return ReferenceTransformer("encoder"); }

std::vector<ModelConfig> Variants() {
  const auto variant = [](PositionKind kind, Mask mask, bool norm_logits) {
    return ModelConfig{.architecture = "encoder",
                       .d_model = 12,
                       .heads = 3,
                       .layers = 2,
                       .d_ff = 16,
                       .vocab = 7,
                       .positions = 13,
                       .position_kind = kind,
                       .mask = mask,
                       .norm_logits = norm_logits,
                       .dropout = 0.2};
  };
  ModelConfig gated = variant(PositionKind::kSinusoidal, Mask::kCausal, false);
  gated.gated = gated.embed_scale = true;
  gated.activation = Activation::kGelu;
  return {variant(PositionKind::kSinusoidal, Mask::kNone, true),
          variant(PositionKind::kNone, Mask::kNone, false),
          variant(PositionKind::kLearned, Mask::kCausal, true),
          variant(PositionKind::kAlibi, Mask::kNone, true),
          variant(PositionKind::kAlibi, Mask::kCausal, false),
          gated};
}

}  // namespace

Family EncoderFamily() {
  return {.name = "encoder",
          .summary = "encoder that classifies every position of a whole sequence",
          .validate = Validate,
          .describe = Describe,
          .usual = Usual,
          .reference = Reference,
          .variants = Variants};
}

}  // namespace mnemon
