// SPDX-License-Identifier: MIT
// A model as data: a list of layers, each a list of sub-layers
//   x = after(x + scale behind(block(norm(x))))
// between an embedding and a head. All that serves or trains a model follows from it:
// tensors, state, step program, sequence form, gradients, sizes. Blocks have sizes of
// their own; only D, V and the context are the model's. What a block computes stands in
// model/blocks/*/settings.h. Two descriptions that are equal compute equal bits,
// whatever they were made from (model/families).
//
// Topology never depends on numbers: x goes through the sub-layers in order. With a
// memory, which its attention blocks see in place of the past, a model goes token by
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

// Closed: adding a block is one line here, and the compiler names every place that
// walks the blocks.
using Block = std::variant<Attention, FastWeights, FeedForward>;

struct SubLayer {
  // Of its tensors, layers.{i}.{name}.*; different from others of the layer.
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
  // Positions of a sequence at most, those of its growing state; StateSpec::kUnlimited:
  // any number.
  int64_t context = StateSpec::kUnlimited;
  // Takes sequences whole and keeps no state: a predictor, no decoder.
  bool whole_sequences = false;
  double dropout = 0.0;  // of training
  Embedding embedding;
  std::vector<std::vector<SubLayer>> layers;
  std::optional<FeedbackMemory> memory;
  Head head;

  int64_t depth() const { return static_cast<int64_t>(layers.size()); }  // L
  bool operator==(const ModelDescription&) const = default;
};

// OK where every part of the code can compute the model; else INVALID_ARGUMENT lists
// the faults, those of sizes before others. Sizes together stay below 2^40 numbers
// (checked arithmetic; nothing is allocated).
absl::Status CheckDescription(const ModelDescription& model);

// What follows. REQUIRES: CheckDescription accepts the model.

// All tensors, in the order of the file. Names:
//   embed.weight [V, D], positions.weight [P, D] where learned; memory.*; then for each
//   sub-layer layers.{i}.{name}.norm, what its block lists, .behind_norm and
//   .after_norm; head.in, norm, head,
//   logits.norm. See docs/checkpoint_format.md.
std::vector<TensorShape> TensorsOf(const ModelDescription& model);

// All tensors of a checkpoint, in that order; with `int8` that of an int8 checkpoint,
// where scales follow the matrix.
std::vector<TensorShape> StoredTensors(const ModelDescription& model, bool int8);

// The state of a session, and where its parts lie in it: indices of entries.
struct DescribedState {
  StateSpec spec;
  int64_t memory = -1;  // the first shared entry of the memory; -1: none
  // Where the entries of each sub-layer begin, also of one that has none.
  std::vector<std::vector<size_t>> first;
};
// Of the step form.
DescribedState StateOf(const ModelDescription& model);
// Of the sequence form, [B, ...]: what a call leaves behind for the next one.
DescribedState CarryOf(const ModelDescription& model);

// What attention keeps of a session: a ring where all of it sees as far.
KeptRows KeptOf(const ModelDescription& model);

// layers.{i}.{name}, which the names of its tensors begin with.
std::string BaseOf(size_t layer, const SubLayer& sub);

// Of each sub-layer: the `layer` of its dropout masks (MaskPlace), the same for all
// training, however it is computed.
std::vector<std::vector<int64_t>> DropoutSites(const ModelDescription& model);

// Any attention block that sees the memory. REQUIRES: there is a memory.
const Attention& MemoryReader(const ModelDescription& model);

// The first block of a kind; null: there is none.
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
