// SPDX-License-Identifier: MIT
// The parts around the stack of layers: token embedding and positions before it, norm
// and output head behind it.
#pragma once

#include "model/config/config.h"
#include "model/layers/affine.h"

namespace mnemon {

struct Frame {
  at::Tensor embed;      // E [V, D]
  at::Tensor positions;  // [P, D]; undefined unless learned
  Affine norm;           // [D]
  Affine head;           // [V, D]; undefined when tied: then logits = LN(x) E^T
};

Frame MakeFrame(const ModelConfig& config);
void VisitEmbedding(const WeightVisitor& visit, Frame& frame);
void VisitHead(const WeightVisitor& visit, Frame& frame);

// tokens [...] int64, on any device -> [..., D].
at::Tensor Embed(const at::Tensor& tokens, const Frame& frame);
// tokens [B, T] at positions first .. first+T-1 -> [B, T, D]: embeddings, times sqrt(D)
// where the config scales them, plus sinusoidal or learned positions.
at::Tensor EmbedAt(const at::Tensor& tokens, const Frame& frame,
                   const ModelConfig& config, int64_t first);
// x [..., D] -> [..., V].
at::Tensor Logits(const at::Tensor& x, const Frame& frame);

}  // namespace mnemon
