// SPDX-License-Identifier: MIT
// Transformer-XL, "Attentive Language Models Beyond a Fixed-Length Context" (Dai, Yang,
// Yang, Carbonell, Le, Salakhutdinov, 2019), sections 3.2 (memory) and 3.3 (relative
// positions), with learned tables in place of projected sinusoids.
#include "base/strings.h"
#include "model/families/families.h"
#include "model/families/field_check.h"
#include "model/families/frame.h"
#include "model/families/table.h"

namespace mnemon {
namespace {

absl::Status Validate(const ModelConfig& config) {
  FieldCheck check(config, {"positions", "position_kind", "window", "mem_len"});
  check.Require(config.position_kind == PositionKind::kRelative, "position_kind",
                "relative");
  check.Require(config.mem_len <= config.positions, "mem_len",
                StrCat("at most positions (", config.positions, ")"));
  return check.status();
}

ModelDescription Describe(const ModelConfig& c) {
  ModelDescription model = FrameOf(c);
  const Attention attention{
      .heads = c.heads,
      .groups = c.heads,
      .width = c.head_width(),
      .window = c.mem_len,
      .whole_segments = c.window == Window::kSegment,
      .carries = Attention::Carries::kInputs,
      .biases = {.value = true, .output = true},
      .positions = RelativePositions{
          .rows = 2 * c.positions, .zero_row = c.positions, .past = c.positions}};
  AddLayers(c, Norm{}, attention, model);
  return model;
}

ModelConfig Usual() {
  return {.architecture = "transformer_xl",
          .position_kind = PositionKind::kRelative,
          .mem_len = 256};
}

ModelConfig Reference() {
  return {.architecture = "transformer_xl",
          .d_model = 128,
          .heads = 4,
          .layers = 6,
          .d_ff = 256,
          .vocab = 65,
          .position_kind = PositionKind::kRelative,
          .window = Window::kSegment,
          .mem_len = 32};
}

std::vector<ModelConfig> Variants() {
  const auto variant = [](Window window, int64_t mem_len, int64_t positions) {
    return ModelConfig{.architecture = "transformer_xl",
                       .d_model = 8,
                       .heads = 2,
                       .layers = 2,
                       .d_ff = 12,
                       .vocab = 7,
                       .positions = positions,
                       .position_kind = PositionKind::kRelative,
                       .window = window,
                       .mem_len = mem_len,
                       .dropout = 0.2};
  };
  return {variant(Window::kSliding, 4, 4), variant(Window::kSliding, 0, 1),
          variant(Window::kSegment, 16, 40), variant(Window::kSegment, 3, 16),
          variant(Window::kSegment, 0, 16)};
}

}  // namespace

Family TransformerXlFamily() {
  return {.name = "transformer_xl",
          .summary = "Transformer-XL: relative attention over a window of memory",
          .validate = Validate,
          .describe = Describe,
          .usual = Usual,
          .reference = Reference,
          .variants = Variants};
}

}  // namespace mnemon
