// SPDX-License-Identifier: MIT
#include "model/blocks/ends/settings.h"

#include "model/compute/tensor_names.h"

namespace mnemon {

void AddTensors(const Embedding& embedding, int64_t width, int64_t vocab,
                int64_t context, TensorList& list) {
  list.Table(names::kEmbed, vocab, width);
  if (embedding.positions == Embedding::Positions::kLearned) {
    list.Table(names::kPositions, context, width);
  }
}

void AddTensors(const Head& head, int64_t width, int64_t vocab, TensorList& list) {
  if (head.classifier) list.Linear(names::kHeadIn, width, width, /*bias=*/true);
  list.Norm(names::kNorm, width, head.norm);
  if (!head.tied) list.Linear(names::kHead, vocab, width, head.bias);
  if (head.classifier && head.classifier->norm_logits) {
    list.Norm(names::kLogitsNorm, vocab);
  }
}

}  // namespace mnemon
