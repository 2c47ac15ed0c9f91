// SPDX-License-Identifier: MIT
// Settings of the embedding and the head of a model.
//
//   x = scale E[token] + position;  logits = scale (W_head norm(x) + b_head)
// each with a scale of its own. If tied, W_head = E, without a bias. With a cap the
// logits become cap tanh(logits / cap) ("Gemma 2", Gemma Team, 2024). A classifier has
// another layer and, with `norm_logits`, a norm at the end:
//   logits = LN_V(W_head act(LN(W_in x + b_in)) + b_head)
// Positions are none, learned rows, or the sinusoids of "Attention Is All You Need"
// (Vaswani et al., 2017), section 3.5.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/tensor_list.h"
#include "model/compute/activation.h"
#include "model/compute/norm.h"

namespace mnemon {

struct Embedding {
  enum class Positions { kNone, kSinusoidal, kLearned };

  double scale = 1;
  Positions positions = Positions::kNone;
  bool drops = false;  // training applies dropout to the sum

  bool operator==(const Embedding&) const = default;
};

struct Classifier {
  Activation activation = Activation::kRelu;
  bool norm_logits = false;

  bool operator==(const Classifier&) const = default;
};

struct Head {
  Norm norm;
  bool tied = false;
  bool bias = true;  // of W_head; none if tied
  double scale = 1;
  std::optional<double> cap = {};  // of logits; not with a classifier
  std::optional<Classifier> classifier = {};

  bool operator==(const Head&) const = default;
};

// Tensors of the embedding; D = `width`, V = `vocab`, P = `context`.
void AddTensors(const Embedding& embedding, int64_t width, int64_t vocab,
                int64_t context, TensorList& list);
// Tensors of the head.
void AddTensors(const Head& head, int64_t width, int64_t vocab, TensorList& list);

}  // namespace mnemon
