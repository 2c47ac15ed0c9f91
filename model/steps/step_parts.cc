// SPDX-License-Identifier: MIT
#include "model/steps/step_parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/positions/alibi.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

EmbedOp MakeEmbed(const ModelConfig& config, const LogitsOp& logits,
                  StepWeights& weights) {
  // In float32 the packed head serves as the embedding too.
  const bool shared = config.tie_head && logits.head.format == WeightFormat::kFp32;
  EmbedOp op{
      .table = shared ? nullptr : weights.Table(names::Weight(names::kEmbed)),
      .scale = config.embed_scale
                   ? static_cast<float>(std::sqrt(static_cast<double>(config.d_model)))
                   : 1.0f,
      .learned = nullptr,
      .sinusoid = std::nullopt};
  if (config.position_kind == PositionKind::kLearned) {
    op.learned = weights.Table(names::Weight(names::kPositions));
  }
  if (config.position_kind == PositionKind::kSinusoidal) {
    op.sinusoid.emplace(config.positions, config.d_model);
  }
  return op;
}

LogitsOp MakeLogits(const ModelConfig& config, StepWeights& weights) {
  // The embedding is the head when they are tied, and then has no bias.
  return {.norm = weights.Norm(names::kNorm),
          .head = weights.Linear({config.tie_head ? names::kEmbed : names::kHead})};
}

FeedForwardOp MakeFeedForward(const ModelConfig& config, int64_t layer,
                              StepWeights& weights) {
  const auto name = [layer](const char* part) { return names::Layer(layer, part); };
  FeedForwardOp op{
      .norm = weights.Norm(name(names::kFfNorm)),
      .in = weights.Linear({name(names::kFfIn)}),
      .out = weights.Linear({name(names::kFfOut)}),
      .factor = {},
      .act = config.activation == Activation::kGelu ? Act::kGelu : Act::kRelu};
  if (config.gated) op.factor = weights.Linear({name(names::kFfFactor)});
  return op;
}

const float* MakeSlopes(const ModelConfig& config, StepWeights& weights) {
  if (config.position_kind != PositionKind::kAlibi) return nullptr;
  const std::vector<double> slopes = AlibiSlopes(config.heads);
  float* const kept = weights.Make(config.heads);
  std::ranges::transform(slopes, kept, [](double x) { return static_cast<float>(x); });
  return kept;
}

StepProgram MakeProgram(const ModelConfig& config, StepWeights& weights) {
  StepProgram program;
  program.width = config.d_model;
  program.heads = config.heads;
  program.head_width = config.head_width();
  program.hidden = config.d_ff;
  program.logits = MakeLogits(config, weights);
  program.embed = MakeEmbed(config, program.logits, weights);
  return program;
}

}  // namespace mnemon
