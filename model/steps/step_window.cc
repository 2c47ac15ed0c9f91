// SPDX-License-Identifier: MIT
#include "model/steps/step_window.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/steps/relative_table.h"
#include "model/steps/step_parts.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

StateSpec MakeSpec(const ModelConfig& c, const WindowShape& shape) {
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    const auto add = [&](const char* part, std::vector<int64_t> row,
                         BlockLayout layout) {
      spec.entries.push_back({.name = layer + part,
                              .shape = std::move(row),
                              .growth = shape.growth,
                              .capacity = shape.capacity,
                              .layout = layout});
    };
    add(".key", {c.heads, c.head_width()}, BlockLayout::kColumns);
    add(".value", {c.heads, c.head_width()}, BlockLayout::kHeadRows);
    if (c.position_kind == PositionKind::kRelative) {
      add(".fold", {c.heads}, BlockLayout::kColumns);
    }
  }
  return spec;
}

AttentionOp MakeAttention(const ModelConfig& c, const WindowShape& shape,
                          const StateSpec& spec, int64_t layer, const float* slopes,
                          StepWeights& weights) {
  const auto name = [layer](const char* part) { return names::Layer(layer, part); };
  const int64_t width = c.head_width();
  const size_t entry =
      spec.entries.size() / static_cast<size_t>(c.layers) * static_cast<size_t>(layer);
  const bool relative = c.position_kind == PositionKind::kRelative;
  AttentionOp op;
  op.norm = weights.Norm(name(names::kAttnNorm));
  op.project = weights.ByHead(
      {name(names::kQuery), name(names::kKey), name(names::kValue)}, width);
  op.head_stride = StepWeights::HeadStride(3, width);
  op.output = weights.Linear({name(names::kOutput)}, /*slice=*/width);
  op.append.heads = op.attend.heads = c.heads;
  op.append.width = op.attend.width = width;
  op.append.key_offset = op.attend.key_offset = spec.offset(entry);
  op.append.value_offset = op.attend.value_offset = spec.offset(entry + 1);
  op.attend.scale = 1.0f / std::sqrt(static_cast<float>(width));
  op.attend.slopes = slopes;
  if (!relative) return op;
  op.append.fold_offset = op.attend.fold_offset = spec.offset(entry + 2);
  op.append.query_bias = weights.Table(name(names::kQueryBias));
  const RelativeTable table = MakeRelativeTable(
      weights.Get(name(names::kRelativeKey)), &weights.Get(name(names::kRelativeBias)),
      /*query_bias=*/nullptr, weights);
  op.attend.relative_key = table.key;
  op.attend.relative_bias = table.bias;
  op.attend.table_rows = table.rows;
  op.attend.zero_row = shape.zero_row;
  return op;
}

}  // namespace

StepForm WindowForm(const ModelConfig& config, const WindowShape& shape,
                    StateSpec carry_spec) {
  return {.carry_spec = std::move(carry_spec),
          .spec = MakeSpec(config, shape),
          .program = [config, shape](const StateSpec& spec, StepWeights& weights) {
            StepProgram program = MakeProgram(config, weights);
            program.reach = shape.reach;
            const float* const slopes = MakeSlopes(config, weights);
            for (int64_t i = 0; i < config.layers; ++i) {
              program.layers.emplace_back(
                  MakeAttention(config, shape, spec, i, slopes, weights));
              program.layers.emplace_back(MakeFeedForward(config, i, weights));
            }
            return program;
          }};
}

}  // namespace mnemon
