// SPDX-License-Identifier: MIT
// The operations of a step, on rows. A row is one token of one session; the rows of all
// sessions of a step form one matrix. C++17, for nvcc.
//
// Determinism: each number of a row results from the same sequence of roundings,
// independent of the other rows, the number of rows, the worker that computes it, the
// number of workers and the instruction set (docs/numerics.md). Sums over k or over
// positions run in a fixed order:
//   matrix        in each slice of inputs k upward, one accumulator per output,
//                 multiply-add; the slices are added upward
//   norm, sums    16 interleaved partial sums, then a tree (8, 4, 2, 1)
//   attention     groups of kGroupBlocks blocks of 16 positions, counted from the
//                 session's position 0, each with its own maximum; then the groups
// kKernelRevision changes if any of this does.
#pragma once

#include <cstdint>

#include "base/partition.h"

namespace mnemon {

// The `index`-th of `count` workers.
struct Share {
  int index = 0;
  int count = 1;

  // The worker's part of `units` units: consecutive, and the same for the same numbers.
  constexpr int64_t begin(int64_t units) const {
    return PartOf(units, index, count).begin;
  }
  constexpr int64_t end(int64_t units) const { return PartOf(units, index, count).end; }
};

// Positions per block of growing state: the width of a vector of positions, and the
// unit of attention's reduction, counted from a session's absolute position 0.
inline constexpr int kBlockPositions = 16;

// Blocks whose scores are held at a time.
inline constexpr int kGroupBlocks = 32;

// Most tokens one Segment may carry.
inline constexpr int kMaxChunk = 64;

// Outputs per panel of a packed matrix.
inline constexpr int kPanel = 16;

// Outputs, padded to whole panels.
inline constexpr int64_t Padded(int64_t outputs) {
  return (outputs + kPanel - 1) / kPanel * kPanel;
}

// Inputs per slice of a matrix [N, K]: at most 16 slices. An output projection has one
// slice per head instead.
inline constexpr int64_t SliceWidth(int64_t inputs) {
  return 64 * ((inputs + 1023) / 1024);
}

// Part of every numerics_id; incremented when the bits of any operation change.
inline constexpr int kKernelRevision = 4;

// Smaller numbers are replaced by +0 when weights are packed, rows and state are
// written, and exponentials returned, so that subnormal numbers do not arise in bulk.
inline constexpr float kSmallest = 0x1p-48f;

inline float Flush(float x) { return x > -kSmallest && x < kSmallest ? 0.0f : x; }

// Bound for a change of fast weights below which the state stays finite. A number is
// below it exactly if their product is finite.
inline constexpr float kMostChange = 0x1p64f;

// Storage format of a matrix. With kInt8, inputs become int8 too, slice by slice, and
// are multiplied exactly; everything else is computed in float32.
enum class WeightFormat : uint8_t { kFp32, kBf16, kInt8 };

// Names in user interfaces.
constexpr const char* NameOf(WeightFormat format) {
  return format == WeightFormat::kFp32   ? "fp32"
         : format == WeightFormat::kBf16 ? "bf16"
                                         : "int8";
}

// Most inputs of a slice in int8: sums of products of at most 127 x 127 then stay well
// within int32, and up to 1,040 inputs they are exact in float32.
inline constexpr int64_t kMaxInt8Slice = 16384;

// W [N, K] as ceil(N / 16) panels of `slices()` slices. A slice of a panel holds, for
// each of its inputs k, the weights of the 16 outputs side by side; in bfloat16, for
// every two k, a uint32 for each output, the first weight in its lower half (the second
// of the last is zero where their number is odd); in int8, for every four k, four bytes
// for each output, which are the weights + 128 (bytes of inputs that do not exist are
// never multiplied with anything but 0). Rows beyond N are zero bytes. Owned by a
// PackedWeights.
struct MatrixView {
  int64_t outputs = 0;  // N
  int64_t inputs = 0;   // K
  int64_t slice = 0;    // inputs of a slice, >= 1; the last may have fewer
  WeightFormat format = WeightFormat::kFp32;
  const void* panels = nullptr;
  int64_t panel_bytes = 0;      // from panel to panel within a slice
  int64_t slice_bytes = 0;      // from slice to slice within a panel
  const float* bias = nullptr;  // [N] and zeros up to whole panels; null: none
  // In int8: the value of a weight of 1, [N] and zeros up to whole panels.
  const float* scales = nullptr;

  constexpr int64_t slices() const { return (inputs + slice - 1) / slice; }
  constexpr int64_t panel_count() const { return Padded(outputs) / kPanel; }
};

// Float32 panels [ceil(N / 16)][K][16] as a matrix of one slice.
inline MatrixView OneSlice(int64_t outputs, int64_t inputs, const float* panels) {
  return {outputs, inputs,
          inputs,  WeightFormat::kFp32,
          panels,  inputs * kPanel * static_cast<int64_t>(sizeof(float)),
          0,       nullptr,
          nullptr};
}

// A norm, see model/compute/norm.h.
struct NormView {
  const float* gain = nullptr;  // [width]; null: no norm at all
  const float* bias = nullptr;  // [width]; zeros of an RMS norm
  float eps = 1e-5f;
  bool centred = true;  // around the mean: a layer norm
};

// A matrix of floats with `stride` floats from row to row.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;

  constexpr float* row(int64_t r) const { return data + r * stride; }
};
struct ConstRows {
  const float* data = nullptr;
  int64_t stride = 0;

  constexpr ConstRows(const float* d, int64_t s) : data(d), stride(s) {}
  constexpr ConstRows(Rows rows) : data(rows.data), stride(rows.stride) {}
  constexpr const float* row(int64_t r) const { return data + r * stride; }
};

// Sine and cosine at each frequency, interleaved, [positions][turns]: at the positions
// that are multiples of `stride`, and at those below it. Null: none.
struct AngleView {
  const double* coarse = nullptr;
  const double* fine = nullptr;
  int64_t stride = 0;
  int64_t turns = 0;
};

// out[r] = scale * table[ids[r]] + the vector of positions[r]: from a table, or
// sinusoids as sums of a coarse and a fine angle, or nothing.
struct EmbedCall {
  int64_t rows = 0;
  int64_t width = 0;                 // D
  const float* table = nullptr;      // [V, D]
  const MatrixView* tied = nullptr;  // alternative: [V, D] packed as floats
  float scale = 1.0f;
  const int32_t* ids = nullptr;
  const int64_t* positions = nullptr;
  const float* learned = nullptr;  // [P, D]
  AngleView sinusoid;
  Rows out;
};

enum class Act : uint8_t { kNone, kRelu, kGelu, kSigmoid, kGeluTanh, kSilu, kTanh };

struct KeyRange;

// out = [residual +] scale act(norm(in) W^T + bias) [* (norm(in) G^T + bias of G)], row
// by row; with a cap, cap tanh of that. `residual` may be `out`.
struct LinearCall {
  int64_t rows = 0;
  ConstRows in{nullptr, 0};       // [rows, K]
  const int32_t* pick = nullptr;  // row r is in.row(pick[r]); null: in.row(r)
  NormView norm;
  MatrixView weights;
  Act act = Act::kNone;
  // G, of the same shape, slices and format; null: none.
  const MatrixView* gate = nullptr;
  ConstRows residual{nullptr, 0};  // [rows, N]; null data: none
  float scale = 1.0f;
  float cap = 0.0f;  // 0: none; without a residual
  // If a row's range is empty, the row becomes the residual; null: no range is empty.
  const KeyRange* key_ranges = nullptr;
  Rows out;  // [rows, N]
};

// Sums of some slices of a product, without scaling, for Fold. Part 0 of a row has the
// slices added upward; with `each`, part i has only the i-th of them. In int8 it is the
// sum of integers, to be scaled by the row's and the outputs' scales.
struct PartsCall {
  int64_t rows = 0;
  ConstRows in{nullptr, 0};  // [rows, K]
  MatrixView weights;
  Part slices;
  bool each = false;
  int64_t part_stride = 0;  // floats to the same row of the next part
  Rows out;                 // [rows, N], of part 0
  Rows scales;              // [rows, slices], of a row's parts; int8 with `each`
};

// out[r] = residual[r] + scale (part 0 + part 1 + .. + bias), parts added upward: equal
// to Linear if part 0 begins with slice 0 and the others follow. With scales, each part
// but part 0 is multiplied by its own scale and that of each output.
struct FoldCall {
  int64_t rows = 0;
  int64_t width = 0;         // N
  ConstRows in{nullptr, 0};  // [rows, N], of part 0
  int64_t parts = 0;         // at least 1
  int64_t part_stride = 0;
  const float* bias = nullptr;        // [N]; null: none
  const float* scales = nullptr;      // [N], of an int8 matrix; else null
  ConstRows part_scales{nullptr, 0};  // [rows, parts - 1]
  ConstRows residual{nullptr, 0};
  float scale = 1.0f;
  const KeyRange* key_ranges = nullptr;  // see LinearCall
  Rows out;                              // may be the residual
};

// The keys that one row of attention reads: positions first .. last of its session, in
// blocks.
struct KeyRange {
  const float* const* blocks = nullptr;  // of positions 16 b .. 16 b + 15, by b - base
  int64_t base = 0;                      // the first block in the table
  int64_t first = 0;
  int64_t last = 0;   // first > last: sees nothing, the output is zero
  int64_t query = 0;  // the row's own position, where distances start
};

// Number of groups of kGroupBlocks blocks that a range of keys touches.
inline constexpr int64_t KeyGroups(const KeyRange& range) {
  constexpr int64_t kGroup = kGroupBlocks * kBlockPositions;
  return range.first > range.last ? 0 : range.last / kGroup - range.first / kGroup + 1;
}

// out[r] = sum_l weights[l] in_l[r], l in order.
struct MixCall {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t layers = 0;
  const float* weights = nullptr;  // [layers]
  ConstRows in{nullptr, 0};        // of the first layer
  int64_t layer_stride = 0;        // floats to the same row of the next layer
  Rows out;
};

// out[r] = act(norm(in[r])); with a residual, residual[r] + scale times that. `out` may
// be `in` without a residual, and may be the residual.
struct NormCall {
  int64_t rows = 0;
  int64_t width = 0;
  ConstRows in{nullptr, 0};
  NormView norm;
  Act act = Act::kNone;
  ConstRows residual{nullptr, 0};  // null data: none
  float scale = 1.0f;
  Rows room;  // for norm(in), with a residual; may be `in`
  Rows out;
};

// Turns scores of consecutive queries of one head into attention weights, in place:
//   w_j = softmax_j(scale s_j - slope |query - j|)
// over the keys that take part; zero for the others, and for all if none does.
struct SoftmaxCall {
  int64_t rows = 0;
  int64_t keys = 0;
  int64_t query = 0;  // the position of row 0
  float scale = 1.0f;
  float slope = 0;
  bool causal = false;            // keys up to the query's own position take part
  const uint8_t* mask = nullptr;  // [rows, keys], non-zero = takes part; null: all
  Rows scores;                    // [rows, keys]
};

}  // namespace mnemon
