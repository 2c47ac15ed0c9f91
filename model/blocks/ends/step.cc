// SPDX-License-Identifier: MIT
#include "model/blocks/ends/step.h"

#include <string>

#include "model/blocks/ends/sinusoid.h"
#include "model/compute/tensor_names.h"

namespace mnemon {

EmbedCall CallOf(const EmbedOp& op, const LogitsOp& logits) {
  return {.rows = 0,
          .width = logits.head.inputs,
          .table = op.table,
          .tied = op.table != nullptr ? nullptr
                  : op.packed         ? &*op.packed
                                      : &logits.head,
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
  EmbedOp op;
  op.scale = static_cast<float>(embedding.scale);
  const std::string table = names::Weight(names::kEmbed);
  const bool bf16 = weights.IsBf16(table);
  // The packed head also serves as the embedding if packing rounds nothing.
  const bool shared =
      head.tied && (logits.head.format == WeightFormat::kFp32 ||
                    (bf16 && logits.head.format == WeightFormat::kBf16));
  if (!shared && bf16) {
    op.packed = weights.Bf16Table(names::kEmbed);
  } else if (!shared) {
    op.table = weights.Table(table);
  }
  if (embedding.positions == Embedding::Positions::kLearned) {
    op.learned = weights.Table(names::Weight(names::kPositions));
  }
  if (embedding.positions == Embedding::Positions::kSinusoidal) {
    op.sinusoid.emplace(context, SinusoidFrequencies(width));
  }
  return op;
}

}  // namespace mnemon
