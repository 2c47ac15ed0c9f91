// SPDX-License-Identifier: MIT
// Settings of multi-head attention, and the tensors and state that follow from them.
//
//   q_i = W_q z_i + b_q,  k_j = W_k z_j + b_k,  v_j = W_v z_j + b_v
//   s(i,j) = c q_i.k_j + position term,  c = 1/sqrt(K)
//   y_i = W_o [sum_j softmax_j(s(i,j)) v_j of every head] + b_o
// if gated, every number that W_o reads is multiplied by its own of sigmoid(W_g z_i +
// b_g) ("Gated Attention for Large Language Models", Qiu et al., 2025), and with a cap
//   s(i,j) = cap tanh(c q_i.k_j / cap)             ("Gemma 2", Gemma Team, 2024)
// "Attention Is All You Need" (Vaswani et al., 2017), section 3.2. With head norms, q_i
// and k_j are normed head by head before rotary positions. A query head h reads the
// keys and values of group h G/H ("GQA", Ainslie et al., 2023); G < H only for
// attention to the past without learned tables. The position term is one of
//   linear biases  -slope_h |i - j|                    (Press, Smith, Lewis, 2021)
//   none, if rotary positions turn q_i and k_j      (rotary.h) learned tables c (u.k_j
//   + q_i.R[z - d] + S[z - d]), d = i - j, z = `zero_row`
//     ("Transformer-XL", Dai et al., 2019, section 3.3, with R and S in place of
//     projected sinusoids; with `tied` S = u.R)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/blocks/attention/rotary.h"
#include "model/blocks/tensor_list.h"
#include "model/compute/norm.h"
#include "model/state/state.h"

namespace mnemon {

// Linear position biases.
struct Alibi {
  bool operator==(const Alibi&) const = default;
};

// Learned tables of relative positions.
struct RelativePositions {
  int64_t rows = 0;      // of R and S
  int64_t zero_row = 0;  // row of distance 0; distance d has row zero_row - d
  int64_t past = 0;      // new weights prefer near positions in rows 0 .. past-1
  bool tied = false;     // no tensor S; only for attention to a memory

  // Number of earlier positions that a query can tell apart.
  int64_t farthest() const { return zero_row; }
  bool operator==(const RelativePositions&) const = default;
};

struct Attention {
  enum class Sees {
    kPast,    // its own position and those before it
    kAll,     // all positions of a whole sequence
    kMemory,  // the memories of the tokens before it (model/blocks/feedback_memory)
  };
  // What the sequence form carries over: keys and values, or the inputs of the layer,
  // which are projected again outside the graph (Transformer-XL).
  enum class Carries { kKeys, kInputs };
  struct Biases {
    bool query = false, key = false, value = false, output = false;
    bool gate = false;
    bool operator==(const Biases&) const = default;
  };

  int64_t heads = 1;   // H
  int64_t groups = 1;  // G, of heads that share keys and values; divides H
  int64_t width = 1;   // K, of a head
  Sees sees = Sees::kPast;
  // Most earlier positions that a query sees; none: all, in a model that has a context.
  std::optional<int64_t> window = {};
  // With kInputs: tokens of one call of the sequence form see each other at any
  // distance.
  bool whole_segments = false;
  Carries carries = Carries::kKeys;
  Biases biases = {};
  std::optional<double> scale = {};  // c; none: 1/sqrt(K)
  std::optional<double> cap = {};    // of scores
  bool gated = false;
  // RMS norms of each head after its projection.
  Norm query_norm = Norm::None(), key_norm = Norm::None();
  std::variant<std::monostate, Alibi, RelativePositions, Rotary> positions = {};

  int64_t sharing() const { return heads / groups; }  // heads of a group
  const RelativePositions* relative() const {
    return std::get_if<RelativePositions>(&positions);
  }
  const Rotary* rotary() const { return std::get_if<Rotary>(&positions); }
  // Whether anything happens between the projections and the scores.
  bool turns() const {
    return rotary() != nullptr || query_norm.applies() || key_norm.applies();
  }
  bool alibi() const { return std::holds_alternative<Alibi>(positions); }
  bool operator==(const Attention&) const = default;
};

// Errors in the settings for a model of `context` positions (StateSpec::kUnlimited: any
// number), in words; empty if valid.
std::vector<std::string> FaultsOf(const Attention& attention, int64_t context);

// `base` is the name of the block, such as "layers.0.attn"; D = `width`. Keys and
// values are left out if they belong to the `shared_memory`.
void AddTensors(const Attention& attention, const std::string& base, int64_t width,
                bool shared_memory, TensorList& list);

// How long a session keeps rows: for its whole context, or in a ring as long as its
// window.
struct KeptRows {
  int64_t context = 0;
  bool ring = false;
};

// Entries of the step form. Attention to a memory has only u.k of its own, with
// `shared_memory` not even keys and values.
void AddState(const Attention& attention, const std::string& owner,
              const KeptRows& kept, bool shared_memory, StateSpec& spec);
// Entries of the carry of the sequence form, D = `width`; none for attention to a
// memory.
void AddCarry(const Attention& attention, const std::string& owner, int64_t width,
              const KeptRows& kept, StateSpec& spec);

}  // namespace mnemon
