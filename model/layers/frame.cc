// SPDX-License-Identifier: MIT
#include "model/layers/frame.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "model/tensor_names.h"

namespace mnemon {

Frame MakeFrame(const ModelConfig& config) {
  return {.embed = at::empty({config.vocab, config.d_model}),
          .norm = MakeNorm(config.d_model),
          .head = MakeLinear(config.vocab, config.d_model, HasBias::kYes)};
}

void VisitEmbedding(const WeightVisitor& visit, Frame& frame) {
  VisitTensor(visit, names::Weight(names::kEmbed), frame.embed);
}

void VisitHead(const WeightVisitor& visit, Frame& frame) {
  VisitAffine(visit, names::kNorm, frame.norm);
  VisitAffine(visit, names::kHead, frame.head);
}

at::Tensor Embed(const at::Tensor& tokens, const Frame& frame) {
  return at::embedding(frame.embed, tokens.to(frame.embed.device()));
}

at::Tensor Logits(const at::Tensor& x, const Frame& frame) {
  return Linear(LayerNorm(x, frame.norm), frame.head);
}

}  // namespace mnemon
