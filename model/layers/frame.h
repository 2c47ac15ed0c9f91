// SPDX-License-Identifier: MIT
// What stands around the stack of layers in every architecture: token embedding, final
// norm, output head.
#pragma once

#include "model/config.h"
#include "model/layers/affine.h"

namespace mnemon {

struct Frame {
  at::Tensor embed;  // [V, D]
  Affine norm;       // [D]
  Affine head;       // [V, D]
};

Frame MakeFrame(const ModelConfig& config);
void VisitEmbedding(const WeightVisitor& visit, Frame& frame);
void VisitHead(const WeightVisitor& visit, Frame& frame);

// tokens [...] int64, on any device -> [..., D].
at::Tensor Embed(const at::Tensor& tokens, const Frame& frame);
// x [..., D] -> [..., V].
at::Tensor Logits(const at::Tensor& x, const Frame& frame);

}  // namespace mnemon
