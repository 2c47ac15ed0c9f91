// SPDX-License-Identifier: MIT
#include <string>

#include "base/strings.h"
#include "model/steps/field_check.h"
#include "model/steps/tensor_list.h"
#include "model/steps/transformer_xl_step.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

absl::Status ValidateTransformerXl(const ModelConfig& config) {
  FieldCheck check(config, {"positions", "position_kind", "window", "mem_len"});
  check.Require(config.position_kind == PositionKind::kRelative, "position_kind",
                "relative");
  check.Require(config.mem_len <= config.positions, "mem_len",
                StrCat("at most positions (", config.positions, ")"));
  return check.status();
}

std::vector<TensorShape> TransformerXlTensors(const ModelConfig& c) {
  TensorList list(c);
  list.Embedding();
  for (int64_t i = 0; i < c.layers; ++i) {
    list.Norm(list.Layer(i, names::kAttnNorm), c.d_model);
    list.Matrix(list.Layer(i, names::kQuery), c.d_model, c.d_model);
    list.Matrix(list.Layer(i, names::kKey), c.d_model, c.d_model);
    list.Linear(list.Layer(i, names::kValue), c.d_model, c.d_model);
    list.RelativePositions(i, 2 * c.positions);
    list.Linear(list.Layer(i, names::kOutput), c.d_model, c.d_model);
    list.FeedForward(i);
  }
  list.Head();
  return list.Take();
}

StateSpec TransformerXlCarry(const ModelConfig& c) {
  StateSpec spec;
  for (int64_t i = 0; i < c.layers && c.mem_len > 0; ++i) {
    spec.entries.push_back({.name = "layer" + std::to_string(i) + ".mem",
                            .shape = {c.d_model},
                            .growth = Growth::kRing,
                            .capacity = c.mem_len});
  }
  return spec;
}

std::vector<ModelConfig> TransformerXlVariants() {
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

}  // namespace mnemon
