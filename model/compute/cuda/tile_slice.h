// SPDX-License-Identifier: MIT
// Sums of one slice of a tile of rows and outputs, by a warp. In float32 and bf16,
// inputs and weights are staged in the warp's shared memory, and a lane sums four
// outputs of some rows in registers; in int8 the warp reads them directly, for products
// of bytes. C++17.
#pragma once

#include "model/compute/cuda/prepared_rows.h"

namespace mnemon::device {

// Rows and outputs of a tile. A lane sums four outputs of `each` rows.
struct TileShape {
  int panels = 0;
  int each = 0;

  constexpr int row_lanes() const { return 8 / panels; }
  constexpr int rows() const { return row_lanes() * each; }
  constexpr int outputs() const { return panels * static_cast<int>(kPanel); }
};

// Inputs of a slice, with all their weights, that a warp multiplies at a time, and
// their floats from row to row: the same input of neighbouring rows is in different
// banks.
inline constexpr int kStagedInputs = 32;
inline constexpr int kStagedStride = kStagedInputs + 4;

// Shared memory of a warp: inputs and weights of a slice, and then its sums.
inline constexpr int64_t TileWarpFloats(const TileShape& shape) {
  return shape.rows() * kStagedStride + kStagedInputs * shape.outputs();
}
struct alignas(16) FourWords {
  uint32_t at[4];
};

// Sums of one slice of a tile, by a warp.
template <int kPanels, int kEach>
class TileSlice {
 public:
  static constexpr TileShape kShape{kPanels, kEach};
  static constexpr int kQuads = 4 * kPanels;  // of outputs
  static constexpr int kSumStride = kShape.outputs() + 4;
  static_assert(kPanels <= 2 && kShape.rows() * kSumStride <= TileWarpFloats(kShape),
                "sums take the place of inputs and weights");

  // `memory`: the warp's.
  MNEMON_DEVICE TileSlice(const MatrixView& matrix, int64_t first_panel, int slice,
                          float* memory)
      : matrix_(matrix), first_panel_(first_panel), slice_(slice), memory_(memory) {}

  // Writes sums [rows][kSumStride]. `row(r)` is the input of row r, for any row of the
  // tile.
  template <bool kBf16, class Row>
  MNEMON_DEVICE void SetFloats(const Row& row) {
    const int quad = Lane() % kQuads, row_lane = Lane() / kQuads;
    const auto width = static_cast<int>(SliceOf(0).width);
    float sums[kEach][4] = {};
    MNEMON_NO_UNROLL
    for (int from = 0; from < width; from += kStagedInputs) {
      const int count = Smaller(kStagedInputs, width - from);
      StageInputs(row, from, count);
      StageWeights(kBf16, from, count);
      AwaitCopies();
      WarpBarrier();
      const float* const inputs = memory_ + row_lane * kStagedStride;
      int k = 0;
      MNEMON_NO_UNROLL
      for (; k + 4 <= count; k += 4) {
        Four weights[4];
        ReadWeights<kBf16>(k, quad, weights);
        MNEMON_UNROLL
        for (int r = 0; r < kEach; ++r) {
          const Four x = *reinterpret_cast<const Four*>(
              inputs + r * kShape.row_lanes() * kStagedStride + k);
          MNEMON_UNROLL
          for (int i = 0; i < 4; ++i) {
            MNEMON_UNROLL
            for (int o = 0; o < 4; ++o) {
              sums[r][o] = Fma(x.at[i], weights[i].at[o], sums[r][o]);
            }
          }
        }
      }
      MNEMON_NO_UNROLL
      for (; k < count; ++k) {
        const Four weights = ReadWeights<kBf16>(k, quad);
        MNEMON_UNROLL
        for (int r = 0; r < kEach; ++r) {
          const float x = inputs[r * kShape.row_lanes() * kStagedStride + k];
          MNEMON_UNROLL
          for (int o = 0; o < 4; ++o) sums[r][o] = Fma(x, weights.at[o], sums[r][o]);
        }
      }
      WarpBarrier();
    }
    MNEMON_UNROLL
    for (int r = 0; r < kEach; ++r) {
      Four four;
      MNEMON_UNROLL
      for (int o = 0; o < 4; ++o) four.at[o] = sums[r][o];
      *reinterpret_cast<Four*>(
          memory_ + (row_lane + r * kShape.row_lanes()) * kSumStride + quad * 4) = four;
    }
  }

  // The same in int8; `rows` of the tile's rows exist.
  MNEMON_DEVICE void SetInt8(const Int8Rows& inputs, int rows) {
    Int8Sums<kPanels, kShape.rows() / 8>(
        inputs, rows, [&](int p) { return SliceOf(p); }, slice_, kSumStride, memory_);
  }

 private:
  // The slice of a panel of the tile; the last one's beyond the matrix's panels.
  MNEMON_DEVICE PanelSlice SliceOf(int panel) const {
    return {matrix_, Smaller(first_panel_ + panel, matrix_.panel_count() - 1), slice_};
  }

  MNEMON_DEVICE float* weights() const {
    return memory_ + kShape.rows() * kStagedStride;
  }

  // Copies inputs from .. from + count - 1 of the slice to shared memory,
  // [rows][kStagedStride].
  template <class Row>
  MNEMON_DEVICE void StageInputs(const Row& row, int from, int count) {
    const int64_t at = slice_ * matrix_.slice + from;
    constexpr int kFours = kStagedInputs / 4, kCopies = kShape.rows() * kFours / kWarp;
    // If all rows are contiguous, so are addresses.
    constexpr int kApart = kWarp / kFours;
    const int first = Lane() / kFours, k = Lane() % kFours * 4;
    const bool fours = OnSixteenBytes(row(0) + at) && row.stride() % 4 == 0;
    if (fours && row.plain() && count == kStagedInputs) {
      const float* from_row = row(0) + first * row.stride() + at + k;
      float* const to = memory_ + first * kStagedStride + k;
      MNEMON_UNROLL
      for (int i = 0; i < kCopies; ++i, from_row += kApart * row.stride()) {
        CopyAhead(to + i * kApart * kStagedStride, from_row);
      }
    } else if (fours && count % 4 == 0) {
      MNEMON_NO_UNROLL
      for (int i = 0; i < kCopies && k < count; ++i) {
        const int r = first + i * kApart;
        CopyAhead(memory_ + r * kStagedStride + k, row(r) + at + k);
      }
    } else {
      for (int n = Lane(); n < kShape.rows() * count; n += kWarp) {
        const int r = n / count;
        memory_[r * kStagedStride + n - r * count] = row(r)[at + n - r * count];
      }
    }
  }

  // The same for weights: in float32 [inputs][outputs], in bf16 two inputs together.
  MNEMON_DEVICE void StageWeights(bool bf16, int from, int count) {
    const int begin = bf16 ? from / 2 : from, lines = bf16 ? (count + 1) / 2 : count;
    constexpr int kApart = kWarp / kQuads;
    const int first = Lane() / kQuads, quad = Lane() % kQuads;
    const char* const from_line = static_cast<const char*>(SliceOf(quad / 4).weights) +
                                  ((begin + first) * 4 + quad % 4) * sizeof(Four);
    float* const to = weights() + Lane() * 4;
    const auto copy = [&](int i) {
      CopyAhead(to + i * kWarp * 4, from_line + i * kApart * (4 * sizeof(Four)));
    };
    if (lines == kStagedInputs) {
      MNEMON_UNROLL
      for (int i = 0; i < kStagedInputs / kApart; ++i) copy(i);
    } else {
      MNEMON_NO_UNROLL
      for (int i = 0; first + i * kApart < lines; ++i) copy(i);
    }
  }

  // Multiplies four outputs by staged inputs k .. k + 3. REQUIRES: k is a multiple of
  // 4.
  template <bool kBf16>
  MNEMON_DEVICE void ReadWeights(int k, int quad, Four (&to)[4]) const {
    if constexpr (kBf16) {
      MNEMON_UNROLL
      for (int i = 0; i < 4; i += 2) {
        const FourWords words =
            reinterpret_cast<const FourWords*>(weights())[(k + i) / 2 * kQuads + quad];
        MNEMON_UNROLL
        for (int o = 0; o < 4; ++o) {
          to[i].at[o] = BitsAsFloat(words.at[o] << 16);
          to[i + 1].at[o] = BitsAsFloat(words.at[o] & 0xFFFF0000u);
        }
      }
    } else {
      MNEMON_UNROLL
      for (int i = 0; i < 4; ++i) {
        to[i] = reinterpret_cast<const Four*>(weights())[(k + i) * kQuads + quad];
      }
    }
  }
  // The same for one input.
  template <bool kBf16>
  MNEMON_DEVICE Four ReadWeights(int k, int quad) const {
    if constexpr (kBf16) {
      const FourWords words =
          reinterpret_cast<const FourWords*>(weights())[k / 2 * kQuads + quad];
      Four four;
      MNEMON_UNROLL
      for (int o = 0; o < 4; ++o) {
        four.at[o] =
            BitsAsFloat(k % 2 == 1 ? words.at[o] & 0xFFFF0000u : words.at[o] << 16);
      }
      return four;
    } else {
      return reinterpret_cast<const Four*>(weights())[k * kQuads + quad];
    }
  }

  const MatrixView& matrix_;
  const int64_t first_panel_;
  const int slice_;
  float* const memory_;
};

}  // namespace mnemon::device
