// SPDX-License-Identifier: MIT
// Feedback Transformer, "Addressing Some Limitations of Transformers with Feedback
// Memory" (Fan, Lavril, Grave, Joulin, Sukhbaatar, 2020), section 3, with relative
// positions as in Transformer-XL. At position t the t memories before it are visible,
// with mem_len only the last mem_len.
#include "base/strings.h"
#include "model/families/families.h"
#include "model/families/field_check.h"
#include "model/families/frame.h"
#include "model/families/table.h"

namespace mnemon {
namespace {

absl::Status Validate(const ModelConfig& config) {
  FieldCheck check(
      config, {"positions", "position_kind", "mem_len", "projection", "position_bias"});
  check.Require(config.position_kind == PositionKind::kRelative, "position_kind",
                "relative");
  check.Require(config.mem_len <= config.positions, "mem_len",
                StrCat("at most positions (", config.positions, ")"));
  return check.status();
}

ModelDescription Describe(const ModelConfig& c) {
  ModelDescription model = FrameOf(c);
  const bool shared = c.projection == Projection::kShared;
  Attention attention{
      .heads = c.heads,
      .groups = c.heads,
      .width = c.head_width(),
      .sees = Attention::Sees::kMemory,
      .biases = {.value = !shared, .output = true},
      .positions = RelativePositions{.rows = c.positions,
                                     .zero_row = c.positions,
                                     .past = c.positions,
                                     .tied = c.position_bias == PositionBias::kTied}};
  if (c.mem_len > 0) {
    attention.window = c.mem_len;
  } else {
    // The last token sees as many memories as there are positions.
    model.context = c.positions + 1;
  }
  model.memory = FeedbackMemory{.shared = shared};
  AddLayers(c, Norm{}, attention, model);
  return model;
}

ModelConfig Usual() {
  return {.architecture = "feedback", .position_kind = PositionKind::kRelative};
}

ModelConfig Reference() {
  return {.architecture = "feedback",
          .d_model = 512,
          .heads = 8,
          .layers = 6,
          .d_ff = 2048,
          .vocab = 65,
          .position_kind = PositionKind::kRelative};
}

std::vector<ModelConfig> Variants() {
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

}  // namespace

Family FeedbackFamily() {
  return {
      .name = "feedback",
      .summary =
          "Feedback Transformer: every layer attends to one memory vector per token",
      .shared_name = "feedback_shared",
      .validate = Validate,
      .describe = Describe,
      .usual = Usual,
      .reference = Reference,
      .variants = Variants};
}

}  // namespace mnemon
