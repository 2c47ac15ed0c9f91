// SPDX-License-Identifier: MIT
#include "model/layers/frame.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>

#include "model/layers/positions.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

Frame MakeFrame(const ModelConfig& c) {
  Frame frame{.embed = at::empty({c.vocab, c.d_model}),
              .positions = {},
              .norm = MakeNorm(c.d_model),
              .head = {}};
  if (c.position_kind == PositionKind::kLearned) {
    frame.positions = at::empty({c.positions, c.d_model});
  }
  if (!c.tie_head) frame.head = MakeLinear(c.vocab, c.d_model, HasBias::kYes);
  return frame;
}

void VisitEmbedding(const WeightVisitor& visit, Frame& frame) {
  VisitTensor(visit, names::Weight(names::kEmbed), frame.embed);
  VisitTensor(visit, names::Weight(names::kPositions), frame.positions);
}

void VisitHead(const WeightVisitor& visit, Frame& frame) {
  VisitAffine(visit, names::kNorm, frame.norm);
  VisitAffine(visit, names::kHead, frame.head);
}

at::Tensor Embed(const at::Tensor& tokens, const Frame& frame) {
  return at::embedding(frame.embed, tokens.to(frame.embed.device()));
}

at::Tensor EmbedAt(const at::Tensor& tokens, const Frame& frame,
                   const ModelConfig& config, int64_t first) {
  at::Tensor x = Embed(tokens, frame);
  if (config.embed_scale) x = x * std::sqrt(static_cast<double>(config.d_model));
  const int64_t time = tokens.size(1);
  switch (config.position_kind) {
    case PositionKind::kSinusoidal:
      return x + Sinusoid(first, time, config.d_model, x.options());
    case PositionKind::kLearned:
      return x + frame.positions.narrow(0, first, time);
    default:
      return x;
  }
}

at::Tensor Logits(const at::Tensor& x, const Frame& frame) {
  const at::Tensor z = LayerNorm(x, frame.norm);
  return frame.head.weight.defined() ? Linear(z, frame.head)
                                     : at::linear(z, frame.embed);
}

}  // namespace mnemon
