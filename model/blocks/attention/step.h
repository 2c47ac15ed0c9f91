// SPDX-License-Identifier: MIT
// Attention in step programs: the operation as data, made of packed weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "model/blocks/attention/calls.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/sub_layer_end_step.h"
#include "model/compute/angle_table.h"
#include "model/compute/kernels.h"
#include "model/compute/step_weights.h"
#include "model/state/state.h"

namespace mnemon {

// x + W_o attend(W_q norm(x)), in one sub-layer. The matrix that makes queries, keys
// and values has the rows of a head in panels of its own: `group_stride` outputs for
// each group, the queries of its heads first, then its key and value where `appends`,
// then the gates of its heads where attend.gate_offset says so.
struct AttentionOp {
  NormView norm;  // no gain: none
  MatrixView project;
  int64_t group_stride = 0;
  bool turns = false;   // `turn` comes next
  TurnCall turn;        // without rows
  bool appends = true;  // else a RememberOp has appended
  AppendCall append;    // without rows; likewise attend
  AttendCall attend;
  MatrixView output;  // a slice per head

  // Where a group's key begins among its outputs.
  int64_t key_column() const { return attend.sharing * Padded(attend.width); }
  SubLayerEndOp end;
};

// Entries of a state spec that attention reads.
struct AttentionEntries {
  size_t key = 0, value = 0;
  size_t fold = 0;  // of u.k; with relative positions
};

// What is appended for a position: the offsets of its entries, and u.
AppendCall MakeAppend(const Attention& attention, const std::string& base,
                      const StateSpec& spec, const AttentionEntries& entries,
                      StepWeights& weights);

// `base` is the name of the block, `angles` those of its rotary positions, which the
// operation points to. Weights are filled by weights.Pack().
AttentionOp MakeAttention(const Attention& attention, const std::string& base,
                          const AngleTable* angles, const NormView& norm,
                          const StateSpec& spec, const AttentionEntries& entries,
                          StepWeights& weights);

// Slopes of linear biases [H], where there are any, else null.
const float* MakeSlopes(const Attention& attention, StepWeights& weights);

// c of the scores.
float ScaleOf(const Attention& attention);

}  // namespace mnemon
