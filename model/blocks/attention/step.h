// SPDX-License-Identifier: MIT
// Attention in step programs: the operation as data, with packed weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/sub_layer_end_step.h"
#include "model/compute/angle_table.h"
#include "model/compute/kernels.h"
#include "model/compute/step_weights.h"
#include "model/state/state.h"

namespace mnemon {

// x + W_o attend(W_q norm(x)), in one sub-layer. The matrix of queries, keys and values
// has the rows of a head in panels of its own: `group_stride` outputs for each group,
// first the queries of its heads, then its key and value if `appends`, then the gates
// of its heads if attend.gate_offset says so.
struct AttentionOp {
  NormView norm;  // no gain: none
  MatrixView project;
  int64_t group_stride = 0;
  bool turns = false;   // whether to execute `turn`
  TurnCall turn;        // without rows
  bool appends = true;  // false: a RememberOp has appended
  AppendCall append;    // without rows, as is attend
  AttendCall attend;
  MatrixView output;  // a slice per head

  // Offset of a group's key among its outputs.
  int64_t key_column() const { return attend.sharing * Padded(attend.width); }
  SubLayerEndOp end;
};

// Entries of a state spec that attention reads.
struct AttentionEntries {
  size_t key = 0, value = 0;
  size_t fold = 0;  // u.k; with relative positions
};

// The append of a position: offsets of its entries, and u.
AppendCall MakeAppend(const Attention& attention, const std::string& base,
                      const StateSpec& spec, const AttentionEntries& entries,
                      StepWeights& weights);

// `base` is the name of the block. The operation points to `angles`, those of its
// rotary positions. Weights are filled by weights.Pack().
AttentionOp MakeAttention(const Attention& attention, const std::string& base,
                          const AngleTable* angles, const NormView& norm,
                          const StateSpec& spec, const AttentionEntries& entries,
                          StepWeights& weights);

// Slopes of linear biases [H], or null if there are none.
const float* MakeSlopes(const Attention& attention, StepWeights& weights);

// c of the scores.
float ScaleOf(const Attention& attention);

}  // namespace mnemon
