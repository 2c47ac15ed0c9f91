// SPDX-License-Identifier: MIT
// Settings of the memory of the Feedback Transformer: one vector per token, mixed from
// the outputs of all layers, which every layer attends to instead of its own past.
//
//   m_t = sum_{l=0..L} softmax(mix)_l x_t^l,  z_t^l = Attn(x_t^l, [m_0 .. m_{t-1}])
// "Addressing Some Limitations of Transformers with Feedback Memory" (Fan, Lavril,
// Grave, Joulin, Sukhbaatar, 2020), section 3. x^0 is the embedding. Keys and values of
// a memory are made once, by every attention block on its own, or shared by all of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/blocks/attention/settings.h"
#include "model/blocks/tensor_list.h"
#include "model/state/state.h"

namespace mnemon {

struct FeedbackMemory {
  bool shared = false;  // one key and one value map, without biases, for all blocks

  bool operator==(const FeedbackMemory&) const = default;
};

// `attention` is any of the blocks that attend to the memory; D = `width`, L =
// `layers`.
void AddTensors(const FeedbackMemory& memory, const Attention& attention, int64_t width,
                int64_t layers, TensorList& list);

// Entries of the step form that belong to no block: shared keys and values.
void AddState(const FeedbackMemory& memory, const Attention& attention, int64_t context,
              StateSpec& spec);
// The carry of the sequence form: the memories themselves.
void AddCarry(const Attention& attention, int64_t width, int64_t context,
              StateSpec& spec);

}  // namespace mnemon
