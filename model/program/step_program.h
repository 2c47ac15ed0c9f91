// SPDX-License-Identifier: MIT
// Step programs: the step form of a model as data. A program is a list of operations
// with fixed addresses of weights and fixed places within a session's state; what
// changes from step to step is a StepBatch (step_batch.h). A StepRunner executes it.
//
// x [rows, D] goes through the operations in order:
//   x = embed(tokens);  x = x + sub-layer(x) for each sub-layer;  logits = head(x)
// With a RememberOp the program is repeated once per wave, the i-th tokens of all runs,
// and x is kept behind the embedding and behind each layer until the end of the wave.
// Topology never depends on the batch: a row that sees no key keeps its x in an
// AttentionOp, bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "model/kernels/kernels.h"
#include "model/positions/sinusoid.h"

namespace mnemon {

struct EmbedOp {
  const float* table = nullptr;  // [V, D]; null: the head, packed in float32
  float scale = 1.0f;
  const float* learned = nullptr;  // [P, D]
  std::optional<SinusoidTable> sinusoid;
};

// x + O attend(Q norm(x)), in one sub-layer. The matrix that makes queries, keys and
// values has the rows of a head in panels of its own: `head_stride` outputs for each
// head, its query first, then its key and value where `appends`.
struct AttentionOp {
  NormView norm;
  MatrixView project;
  int64_t head_stride = 0;
  bool appends = true;  // else a RememberOp has appended
  AppendCall append;    // without rows; likewise attend
  AttendCall attend;
  MatrixView output;  // a slice per head
};

// The same with fast weights in place of attention, without a norm.
struct FastWeightsOp {
  MatrixView project;  // as of AttentionOp: query, key, value
  int64_t head_stride = 0;
  MatrixView gate;  // [H, D], of beta; no outputs: the sum rule
  FastWeightCall call;
  MatrixView output;  // a slice per head
};

// x + W_out act(W_in norm(x)) [* W_factor norm(x)].
struct FeedForwardOp {
  NormView norm;
  MatrixView in, out;
  MatrixView factor;  // no outputs: not gated
  Act act = Act::kRelu;
};

// The memory of a token, mixed from all layers, as keys and values: `maps` makes, for
// each head, a key and a value of each append in order, `head_stride` outputs in all.
struct RememberOp {
  const float* mix = nullptr;  // [L+1]
  MatrixView maps;
  int64_t head_stride = 0;
  int64_t pair_stride = 0;  // outputs from the key of an append to that of the next one
  std::vector<AppendCall> appends;
};

struct LogitsOp {
  NormView norm;
  MatrixView head;  // [V, D]
};

// A call without rows.
EmbedCall CallOf(const EmbedOp& op, const LogitsOp& logits);

using SubLayerOp = std::variant<AttentionOp, FastWeightsOp, FeedForwardOp>;

struct StepProgram {
  int64_t width = 0;       // D
  int64_t heads = 0;       // H
  int64_t head_width = 0;  // K
  int64_t hidden = 0;      // F

  // Which keys a row sees: at most `reach` positions before its own, and its own where
  // `sees_itself`.
  int64_t reach = INT64_MAX;
  bool sees_itself = true;
  int64_t FirstSeen(int64_t position) const {
    return std::max<int64_t>(0, position - reach);
  }
  // Before the first one where it sees none.
  int64_t LastSeen(int64_t position) const {
    return sees_itself ? position : position - 1;
  }

  EmbedOp embed;
  std::vector<SubLayerOp> layers;  // a FeedForwardOp ends a layer
  std::optional<RememberOp> remember;
  LogitsOp logits;

  // Of x that a wave keeps.
  int64_t levels() const;
  // Of the matrix behind the activation of a feed-forward: all have the same shape.
  int64_t hidden_slices() const;
};

}  // namespace mnemon
