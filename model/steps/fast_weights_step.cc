// SPDX-License-Identifier: MIT
// The step form of fast weights. The state per layer is W, transposed to [H, N, K] so
// that a feature's row is a vector, and z where the config has it. A prompt runs
// through the layers as a whole; the recurrence runs token by token inside the kernel.
#include "model/steps/fast_weights_step.h"

#include <string>

#include "model/steps/step_decoder.h"
#include "model/steps/step_parts.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

bool Normalised(const ModelConfig& c) { return c.normalise == Normalise::kZ; }

StateSpec MakeSpec(const ModelConfig& c) {
  const int64_t features = c.features();
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    spec.entries.push_back(
        {.name = layer + ".wt", .shape = {c.heads, features, c.head_width()}});
    if (Normalised(c)) {
      spec.entries.push_back({.name = layer + ".z", .shape = {c.heads, features}});
    }
  }
  return spec;
}

FastWeightsOp MakeFastWeights(const ModelConfig& c, const StateSpec& spec,
                              int64_t layer, StepWeights& weights) {
  const auto name = [layer](const char* part) { return names::Layer(layer, part); };
  const int64_t width = c.head_width();
  FastWeightsOp op;
  op.project = weights.ByHead(
      {name(names::kQuery), name(names::kKey), name(names::kValue)}, width);
  op.head_stride = StepWeights::HeadStride(3, width);
  if (c.update_rule == UpdateRule::kDelta) {
    op.gate = weights.Linear({name(names::kGate)});
  }
  op.output = weights.Linear({name(names::kOutput)}, /*slice=*/width);
  const size_t entry = static_cast<size_t>(layer) * (Normalised(c) ? 2 : 1);
  op.call.heads = c.heads;
  op.call.width = width;
  op.call.map = {.nu = c.nu, .elu = c.feature_map == FeatureMapKind::kElu};
  op.call.state_offset = spec.offset(entry);
  if (Normalised(c)) op.call.normaliser_offset = spec.offset(entry + 1);
  return op;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> MakeFastWeightsDecoder(
    const ModelConfig& config, const TensorViews& views, const StepOptions& options) {
  StepForm form{
      .carry_spec = FastWeightsCarry(config),
      .spec = MakeSpec(config),
      .program = [config](const StateSpec& spec, StepWeights& weights) {
        StepProgram program = MakeProgram(config, weights);
        for (int64_t i = 0; i < config.layers; ++i) {
          program.layers.emplace_back(MakeFastWeights(config, spec, i, weights));
          program.layers.emplace_back(MakeFeedForward(config, i, weights));
        }
        return program;
      }};
  return MakeStepDecoder(config, std::move(form), views, options);
}

}  // namespace mnemon
