// SPDX-License-Identifier: MIT
// What stands before the first layer of a model and behind the last one, as data.
//
//   x = E[token] (times sqrt(D)) + position;  logits = W_head LN(x) + b_head
// where tied W_head = E, without a bias. A classifier has a layer in between and, with
// `norm_logits`, a norm behind it:
//   logits = LN_V(W_head act(LN(W_in x + b_in)) + b_head)
// Positions are none, learned rows, or the sinusoids of "Attention Is All You Need"
// (Vaswani et al., 2017), section 3.5.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/activation.h"
#include "model/blocks/tensor_list.h"

namespace mnemon {

struct Embedding {
  enum class Positions { kNone, kSinusoidal, kLearned };

  bool scaled = false;  // times sqrt(D)
  Positions positions = Positions::kNone;
  bool drops = false;  // training drops from the sum

  bool operator==(const Embedding&) const = default;
};

struct Classifier {
  Activation activation = Activation::kRelu;
  bool norm_logits = false;

  bool operator==(const Classifier&) const = default;
};

struct Head {
  bool tied = false;
  std::optional<Classifier> classifier = {};

  bool operator==(const Head&) const = default;
};

// Before the layers; D = `width`, V = `vocab`, P = `context`.
void AddTensors(const Embedding& embedding, int64_t width, int64_t vocab,
                int64_t context, TensorList& list);
// Behind them.
void AddTensors(const Head& head, int64_t width, int64_t vocab, TensorList& list);

}  // namespace mnemon
