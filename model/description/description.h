// SPDX-License-Identifier: MIT
// Description of a model: a list of layers, each a list of sub-layers
//   x = after(x + scale behind(block(norm(x))))
// between an embedding and a head. Everything that serves or trains a model follows
// from it: tensors, state, step program, sequence form, gradients, sizes. Blocks have
// their own sizes; only D, V and the context belong to the model. What a block computes
// is in model/blocks/*/settings.h. Equal descriptions compute equal bits, whatever they
// were made from (model/families).
//
// Topology never depends on numbers: x goes through the sub-layers in order. A model
// with a memory, which its attention blocks see instead of the past, runs token by
// token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/ends/settings.h"
#include "model/blocks/fast_weights/settings.h"
#include "model/blocks/feed_forward/settings.h"
#include "model/blocks/feedback_memory/settings.h"
#include "model/compute/norm.h"
#include "model/compute/weights.h"
#include "model/state/state.h"

namespace mnemon {

// Closed: a new block is one line here, and the compiler then finds every place that
// visits the blocks.
using Block = std::variant<Attention, FastWeights, FeedForward>;

struct SubLayer {
  // Name of its tensors, layers.{i}.{name}.*; unique within the layer.
  std::string name;
  Norm norm;
  Block block;
  Norm behind = Norm::None();
  Norm after = Norm::None();
  double scale = 1;

  bool operator==(const SubLayer&) const = default;
};

struct ModelDescription {
  int64_t width = 0;  // D
  int64_t vocab = 0;  // V
  // Most positions of a sequence, and of its growing state; StateSpec::kUnlimited: any
  // number.
  int64_t context = StateSpec::kUnlimited;
  // Takes whole sequences and keeps no state: served by a predictor, not a decoder.
  bool whole_sequences = false;
  double dropout = 0.0;  // in training
  Embedding embedding;
  std::vector<std::vector<SubLayer>> layers;
  std::optional<FeedbackMemory> memory;
  Head head;

  int64_t depth() const { return static_cast<int64_t>(layers.size()); }  // L
  bool operator==(const ModelDescription&) const = default;
};

// OK if every part of the code can compute the model. INVALID_ARGUMENT lists the
// faults, those of sizes before others. All sizes together stay below 2^40 numbers
// (checked arithmetic; nothing is allocated).
absl::Status CheckDescription(const ModelDescription& model);

// The functions below REQUIRE: CheckDescription accepts the model.

// All tensors, in the order of the file. Names:
//   embed.weight [V, D], positions.weight [P, D] where learned; memory.*; then for each
//   sub-layer layers.{i}.{name}.norm, what its block lists, .behind_norm and
//   .after_norm; head.in, norm, head,
//   logits.norm. See docs/checkpoint_format.md.
std::vector<TensorShape> TensorsOf(const ModelDescription& model);

// All tensors of a checkpoint, in that order. In an int8 checkpoint, scales follow
// their matrix.
std::vector<TensorShape> StoredTensors(const ModelDescription& model, bool int8);

// The state of a session, and the indices of the entries of its parts.
struct DescribedState {
  StateSpec spec;
  int64_t memory = -1;  // the first shared entry of the memory; -1: none
  // First entry of each sub-layer, also of one that has none.
  std::vector<std::vector<size_t>> first;
};
// State of the step form.
DescribedState StateOf(const ModelDescription& model);
// State of the sequence form, [B, ...]: what a call hands to the next.
DescribedState CarryOf(const ModelDescription& model);

// What attention keeps of a session: a ring if all attention blocks see equally far.
KeptRows KeptOf(const ModelDescription& model);

// layers.{i}.{name}, the prefix of the names of its tensors.
std::string BaseOf(size_t layer, const SubLayer& sub);

// For each sub-layer the `layer` of its dropout masks (MaskPlace), the same in all
// implementations of training.
std::vector<std::vector<int64_t>> DropoutSites(const ModelDescription& model);

// Any attention block that sees the memory. REQUIRES: there is a memory.
const Attention& MemoryReader(const ModelDescription& model);

// The first block of a kind; null if there is none.
template <class Kind>
const Kind* FirstBlock(const ModelDescription& model) {
  for (const std::vector<SubLayer>& layer : model.layers) {
    for (const SubLayer& sub : layer) {
      if (const Kind* found = std::get_if<Kind>(&sub.block)) return found;
    }
  }
  return nullptr;
}

}  // namespace mnemon
