// SPDX-License-Identifier: MIT
// The step form of the Feedback Transformer: token by token, the sessions of a batch
// side by side. A memory is made from all layers' outputs of its token, and what every
// layer reads of it is cached at once: key, value and u.k, per layer or, with shared
// keys and values, the two once and u.k per layer.
#include "model/steps/feedback_step.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/numerics/functions.h"
#include "model/steps/relative_table.h"
#include "model/steps/step_decoder.h"
#include "model/steps/step_parts.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

bool Shared(const ModelConfig& c) { return c.projection == Projection::kShared; }

StateSpec MakeSpec(const ModelConfig& c) {
  StateSpec spec;
  const auto add = [&](std::string name, std::vector<int64_t> row, BlockLayout layout) {
    spec.entries.push_back({.name = std::move(name),
                            .shape = std::move(row),
                            .growth = FeedbackGrowth(c),
                            .capacity = FeedbackCapacity(c),
                            .layout = layout});
  };
  const auto add_pair = [&](const std::string& owner) {
    add(owner + ".key", {c.heads, c.head_width()}, BlockLayout::kColumns);
    add(owner + ".value", {c.heads, c.head_width()}, BlockLayout::kHeadRows);
  };
  if (Shared(c)) add_pair("memory");
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    if (!Shared(c)) add_pair(layer);
    add(layer + ".fold", {c.heads}, BlockLayout::kColumns);
  }
  return spec;
}

const float* MakeMix(StepWeights& weights) {
  const std::span<const float> raw = weights.Get(names::kMemoryMix).values();
  float* const mix = weights.Make(static_cast<int64_t>(raw.size()));
  weights.Later({std::as_bytes(raw)}, [mix, raw] {
    const double most = std::ranges::max(raw);
    double total = 0;
    for (const float value : raw) total += numerics::Exp(value - most);
    for (size_t l = 0; l < raw.size(); ++l) {
      mix[l] = Flush(static_cast<float>(numerics::Exp(raw[l] - most) / total));
    }
  });
  return mix;
}

// The matrices that make keys and values.
std::vector<std::string> MemoryMaps(const ModelConfig& c) {
  if (Shared(c)) return {names::kMemoryKey, names::kMemoryValue};
  std::vector<std::string> bases;
  for (int64_t i = 0; i < c.layers; ++i) {
    bases.push_back(names::Layer(i, names::kKey));
    bases.push_back(names::Layer(i, names::kValue));
  }
  return bases;
}

AttentionOp MakeAttention(const ModelConfig& c, const AppendCall& append, int64_t layer,
                          StepWeights& weights) {
  const auto name = [layer](const char* part) { return names::Layer(layer, part); };
  const int64_t width = c.head_width();
  const TensorView& query_bias = weights.Get(name(names::kQueryBias));
  const RelativeTable table =
      MakeRelativeTable(weights.Get(name(names::kRelativeKey)),
                        weights.Find(name(names::kRelativeBias)), &query_bias, weights);
  AttentionOp op;
  op.norm = weights.Norm(name(names::kAttnNorm));
  op.project = weights.ByHead({name(names::kQuery)}, width);
  op.head_stride = StepWeights::HeadStride(1, width);
  op.appends = false;
  op.output = weights.Linear({name(names::kOutput)}, /*slice=*/width);
  op.attend.heads = c.heads;
  op.attend.width = width;
  op.attend.scale = 1.0f / std::sqrt(static_cast<float>(width));
  op.attend.key_offset = append.key_offset;
  op.attend.value_offset = append.value_offset;
  op.attend.fold_offset = append.fold_offset;
  op.attend.relative_key = table.key;
  op.attend.relative_bias = table.bias;
  op.attend.table_rows = table.rows;
  op.attend.zero_row = table.rows;
  return op;
}

RememberOp MakeRemember(const ModelConfig& c, const StateSpec& spec,
                        StepWeights& weights) {
  const std::vector<std::string> maps = MemoryMaps(c);
  RememberOp op{
      .mix = MakeMix(weights),
      .maps = weights.ByHead(maps, c.head_width()),
      .head_stride = StepWeights::HeadStride(maps.size(), c.head_width()),
      .pair_stride = Shared(c) ? 0 : StepWeights::HeadStride(2, c.head_width()),
      .appends = {}};
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto layer = static_cast<size_t>(i);
    const size_t key = Shared(c) ? 0 : 3 * layer;
    AppendCall& append = op.appends.emplace_back();
    append.heads = c.heads;
    append.width = c.head_width();
    append.key_offset = spec.offset(key);
    append.value_offset = spec.offset(key + 1);
    append.fold_offset = spec.offset(Shared(c) ? 2 + layer : key + 2);
    append.query_bias = weights.Table(names::Layer(i, names::kQueryBias));
  }
  return op;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> MakeFeedbackDecoder(
    const ModelConfig& config, const TensorViews& views, const StepOptions& options) {
  StepForm form{
      .carry_spec = FeedbackCarry(config),
      .spec = MakeSpec(config),
      .program = [config](const StateSpec& spec, StepWeights& weights) {
        StepProgram program = MakeProgram(config, weights);
        program.sees_itself = false;
        if (config.mem_len > 0) program.reach = config.mem_len;
        program.remember = MakeRemember(config, spec, weights);
        for (int64_t i = 0; i < config.layers; ++i) {
          const AppendCall& append = program.remember->appends[static_cast<size_t>(i)];
          program.layers.emplace_back(MakeAttention(config, append, i, weights));
          program.layers.emplace_back(MakeFeedForward(config, i, weights));
        }
        return program;
      }};
  return MakeStepDecoder(config, std::move(form), views, options);
}

}  // namespace mnemon
