// SPDX-License-Identifier: MIT
#include <string>

#include "model/steps/encoder_predictor.h"
#include "model/steps/field_check.h"
#include "model/steps/tensor_list.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

absl::Status ValidateEncoder(const ModelConfig& config) {
  FieldCheck check(config, {"positions", "position_kind", "embed_scale", "activation",
                            "gated", "mask", "norm_logits"});
  check.Require(config.position_kind != PositionKind::kRelative, "position_kind",
                "none, sinusoidal, learned or alibi");
  return check.status();
}

std::vector<TensorShape> EncoderTensors(const ModelConfig& c) {
  TensorList list(c);
  list.Embedding();
  for (int64_t i = 0; i < c.layers; ++i) {
    list.Norm(list.Layer(i, names::kAttnNorm), c.d_model);
    for (const char* part :
         {names::kQuery, names::kKey, names::kValue, names::kOutput}) {
      list.Matrix(list.Layer(i, part), c.d_model, c.d_model);
    }
    list.FeedForward(i);
  }
  list.Linear(names::kHeadIn, c.d_model, c.d_model);
  list.Head();
  if (c.norm_logits) list.Norm(names::kLogitsNorm, c.vocab);
  return list.Take();
}

std::vector<ModelConfig> EncoderVariants() {
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

}  // namespace mnemon
