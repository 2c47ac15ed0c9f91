// SPDX-License-Identifier: MIT
#include "model/blocks/ends/step.h"

#include "model/blocks/ends/sinusoid.h"
#include "model/compute/tensor_names.h"

namespace mnemon {

EmbedCall CallOf(const EmbedOp& op, const LogitsOp& logits) {
  return {.rows = 0,
          .width = logits.head.inputs,
          .table = op.table,
          .tied = op.table == nullptr ? &logits.head : nullptr,
          .scale = op.scale,
          .learned = op.learned,
          .sinusoid = op.sinusoid ? op.sinusoid->view() : AngleView{}};
}

LogitsOp MakeLogits(const Head& head, StepWeights& weights) {
  // The embedding is the head when they are tied, and then has no bias.
  return {.norm = weights.Norm(names::kNorm, head.norm),
          .head = weights.Linear({head.tied ? names::kEmbed : names::kHead}),
          .scale = static_cast<float>(head.scale / head.cap.value_or(1)),
          .cap = static_cast<float>(head.cap.value_or(0))};
}

EmbedOp MakeEmbed(const Embedding& embedding, const Head& head, const LogitsOp& logits,
                  int64_t width, int64_t context, StepWeights& weights) {
  // In float32 the packed head serves as the embedding too.
  const bool shared = head.tied && logits.head.format == WeightFormat::kFp32;
  EmbedOp op{.table = shared ? nullptr : weights.Table(names::Weight(names::kEmbed)),
             .scale = static_cast<float>(embedding.scale),
             .learned = nullptr,
             .sinusoid = std::nullopt};
  if (embedding.positions == Embedding::Positions::kLearned) {
    op.learned = weights.Table(names::Weight(names::kPositions));
  }
  if (embedding.positions == Embedding::Positions::kSinusoidal) {
    op.sinusoid.emplace(context, SinusoidFrequencies(width));
  }
  return op;
}

}  // namespace mnemon
