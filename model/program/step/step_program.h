// SPDX-License-Identifier: MIT
// Step programs: the step form of a model as data. A program is a list of operations
// with fixed addresses of weights and fixed places within a session's state; the
// StepBatch (step_batch.h) changes from step to step. A StepRunner executes it.
//
// x [rows, D] goes through the operations in order:
//   x = embed(tokens);  x = x + sub-layer(x) for each sub-layer;  logits = head(x)
// Each has sizes of its own. With a RememberOp the program runs once per wave (the i-th
// tokens of all runs), and x after the embedding and after each layer is kept until the
// end of the wave. Topology never depends on the batch: a row that sees no key keeps
// its x in an AttentionOp, bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "model/blocks/attention/step.h"
#include "model/blocks/ends/step.h"
#include "model/blocks/fast_weights/step.h"
#include "model/blocks/feed_forward/step.h"
#include "model/blocks/feedback_memory/step.h"
#include "model/compute/step_weights.h"
#include "model/description/description.h"

namespace mnemon {

using SubLayerOp = std::variant<AttentionOp, FastWeightsOp, FeedForwardOp>;

// Sizes of buffers: the maxima over the operations of a program.
struct StepSizes {
  int64_t projected = 0;  // outputs of a projection, padded to whole panels
  int64_t gate = 0;       // outputs of a gate; 0: there is none
  int64_t heads = 0;
  int64_t mixed = 0;   // H K
  int64_t hidden = 0;  // F
  int64_t slices = 0;  // of a matrix after an activation or heads
};

struct StepProgram {
  int64_t width = 0;  // D

  // Keys that a row sees: at most reaches[AttendCall::reach] positions before its own,
  // and its own if `sees_itself`. All reaches of the program, the farthest first.
  std::vector<int64_t> reaches = {INT64_MAX};
  bool sees_itself = true;
  int64_t FirstSeen(int64_t position, size_t reach = 0) const {
    return std::max<int64_t>(0, position - reaches[reach]);
  }
  // Less than FirstSeen if the row sees no key.
  int64_t LastSeen(int64_t position) const {
    return sees_itself ? position : position - 1;
  }

  // Smallest number of parts by head over all mixers: groups of heads that share keys
  // and values, or heads of fast weights. 0 if a norm follows a block, since all
  // workers synchronise before it.
  int64_t fewest_groups = INT64_MAX;

  // Angles of rotary positions, shared by all layers with the same settings.
  struct RotaryAngles {
    Rotary rotary;
    AngleTable table;
  };
  std::vector<std::unique_ptr<const RotaryAngles>> angles;

  EmbedOp embed;
  std::vector<std::vector<SubLayerOp>> layers;
  std::optional<RememberOp> remember;
  LogitsOp logits;

  // Versions of x that a wave keeps.
  int64_t levels() const {
    return remember ? static_cast<int64_t>(layers.size()) + 1 : 1;
  }
};

// Calls each(op) for all sub-layers, in order.
template <class Each>
void ForSubLayers(const StepProgram& program, const Each& each) {
  for (const std::vector<SubLayerOp>& layer : program.layers) {
    for (const SubLayerOp& op : layer) std::visit(each, op);
  }
}

StepSizes SizesOf(const StepProgram& program);

// The program of a description whose step form has `state`. Asks for weights, which are
// there after weights.Pack(). REQUIRES: an autoregressive model.
StepProgram MakeStepProgram(const ModelDescription& model, const DescribedState& state,
                            StepWeights& weights);

}  // namespace mnemon
