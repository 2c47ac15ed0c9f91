// SPDX-License-Identifier: MIT
// Calls of attention to a session's keys and values, on rows: see
// model/compute/kernels.h. C++17, for nvcc.
#pragma once

#include <cstdint>

#include "base/partition.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Most distinct window lengths in a model; no window counts as one.
inline constexpr int kMostReaches = 2;

// Scaled dot-product attention of each row and head over its range of keys:
//   s_j = scale (q.(k_j + R[z - d]) + f_j + S[z - d]) - slope d,  d = query - j
// or cap tanh(scale q.k_j),
//   out = sum_j softmax(s)_j v_j [* sigmoid(gate)]
// Within a block keys are columns [G K][16], values rows, group by group [G][16][K],
// and f (only if G = H) columns [H][16].
struct AttendCall {
  int64_t rows = 0;
  int32_t reach = 0;    // which of kMostReaches its key ranges belong to
  int64_t heads = 0;    // H
  int64_t sharing = 1;  // heads of a group, which share keys and values: H / G
  int64_t width = 0;    // K of a head
  float scale = 1.0f;
  float cap = 0.0f;             // 0: none
  ConstRows query{nullptr, 0};  // [rows], see QueryAt
  int64_t group_stride = 0;     // from a group's first query to the next group's
  int64_t gate_offset = 0;      // from a head's query to its gate [K]; 0: none
  Rows out;                     // [rows, H K]
  const KeyRange* key_ranges = nullptr;
  int64_t groups = 0;      // maximum of KeyGroups over the rows
  int64_t key_offset = 0;  // floats from the start of a block
  int64_t value_offset = 0;
  int64_t fold_offset = -1;  // of f = u.k, folded in at append; -1: none
  // R^T [H][K][table_rows], S^T [H][table_rows]; null: none. Row z is distance 0.
  // 15 floats before and after each table may be read.
  const float* relative_key = nullptr;
  const float* relative_bias = nullptr;
  int64_t table_rows = 0;
  int64_t zero_row = 0;
  const float* slopes = nullptr;  // [H]; null: none

  // Offset of a head's query within a row.
  constexpr int64_t QueryAt(int64_t head) const {
    return head / sharing * group_stride + head % sharing * Padded(width);
  }
  // Offset of its group's keys and values within a position's [G K].
  constexpr int64_t KeptAt(int64_t head) const { return head / sharing * width; }
};

// Norms and rotates queries and keys in place, before Append and Attend. For each head
//   z = norm(x);  y_i = z_i c - z_{i+half} s,  y_{i+half} = z_{i+half} c + z_i s
// over the first `angles.turns` numbers (half = turns / 2), with c and s of the row's
// position times `magnitude`.
struct TurnCall {
  int64_t rows = 0;
  int64_t groups = 0;
  int64_t queries = 1;  // of a group; its key, if any, comes after them
  bool key = true;
  int64_t width = 0;              // K
  int64_t group_stride = 0;       // from a group's first query to the next group's
  NormView query_norm, key_norm;  // of K numbers; no gain: none
  AngleView angles;               // null: nothing turns
  float magnitude = 1.0f;
  const int64_t* positions = nullptr;  // [rows]
  Rows heads;                          // [rows]

  constexpr int64_t group_heads() const { return queries + (key ? 1 : 0); }
  // Offset of a group's `index`-th head within a row.
  constexpr int64_t HeadAt(int64_t group, int64_t index) const {
    return group * group_stride + index * Padded(width);
  }
};

// Destination of a row's key, value and folded bias: a block and a place within it.
struct Place {
  float* block = nullptr;
  int64_t slot = 0;  // 0 .. 15
};

// Writes keys as columns, values as rows, and f = u.k per head. Returns whether all
// that it wrote is finite.
struct AppendCall {
  int64_t rows = 0;
  int64_t heads = 0;  // of keys and values: G
  int64_t width = 0;
  const Place* places = nullptr;
  ConstRows key{nullptr, 0};  // [rows], a head's at a multiple of head_stride
  ConstRows value{nullptr, 0};
  int64_t head_stride = 0;
  int64_t key_offset = 0;
  int64_t value_offset = 0;
  int64_t fold_offset = -1;
  const float* query_bias = nullptr;  // u [H K]
};

// Rows and heads of attention that a worker computes at a time, and the scratch of
// each: scores of a group, a sum over odd positions, and the result of each group: a
// sum, the maximum and the total of the weights.
inline constexpr int64_t kAttendUnits = 4;
inline int64_t AttendGroupFloats(int64_t width) { return (width + 15) / 16 * 16 + 16; }
inline int64_t AttendUnitFloats(int64_t width, int64_t groups) {
  return kGroupBlocks * kBlockPositions + (groups + 1) * AttendGroupFloats(width);
}
inline int64_t ScratchFloats(const AttendCall& call) {
  return kAttendUnits * AttendUnitFloats(call.width, call.groups);
}
// The call restricted to groups begin .. end-1.
inline TurnCall GroupsOf(TurnCall call, Part groups) {
  call.groups = groups.size();
  call.heads.data += call.HeadAt(groups.begin, 0);
  return call;
}

inline AppendCall GroupsOf(AppendCall call, Part groups) {
  const int64_t rows = groups.begin * call.width;
  call.heads = groups.size();
  call.key.data += groups.begin * call.head_stride;
  call.value.data += groups.begin * call.head_stride;
  call.key_offset += rows * kBlockPositions;
  call.value_offset += rows * kBlockPositions;
  if (call.fold_offset >= 0) call.fold_offset += groups.begin * kBlockPositions;
  if (call.query_bias != nullptr) call.query_bias += rows;
  return call;
}

inline AttendCall GroupsOf(AttendCall call, Part groups) {
  const int64_t head = groups.begin * call.sharing, rows = head * call.width;
  const int64_t kept = call.KeptAt(head) * kBlockPositions;
  call.heads = groups.size() * call.sharing;
  call.query.data += call.QueryAt(head);
  call.out.data += rows;
  call.key_offset += kept;
  call.value_offset += kept;
  if (call.fold_offset >= 0) call.fold_offset += head * kBlockPositions;
  if (call.relative_key != nullptr) call.relative_key += rows * call.table_rows;
  if (call.relative_bias != nullptr) call.relative_bias += head * call.table_rows;
  if (call.slopes != nullptr) call.slopes += head;
  return call;
}

}  // namespace mnemon
