// SPDX-License-Identifier: MIT
// Linear of kernels.h on a device for many rows. All threads of a block call it; the
// block is the share's worker. A block computes tiles of rows and outputs; its warps
// sum one slice each of a tile, four outputs of some rows in each lane's registers, or
// in int8 by products of bytes. The slices meet in shared memory, where they are added
// upward. C++17.
#pragma once

#include "model/kernels/cuda/prepared_rows.h"

namespace mnemon::device {

// Rows and outputs of a tile. A lane sums four outputs of `each` rows.
struct TileShape {
  int panels = 0;
  int each = 0;

  constexpr int row_lanes() const { return 8 / panels; }
  constexpr int rows() const { return row_lanes() * each; }
  constexpr int outputs() const { return panels * static_cast<int>(kPanel); }
};

// Of a call with so many rows: few rows are one tile, and with many a weight is used
// for as many as registers hold.
inline constexpr TileShape TileShapeOf(int64_t rows) {
  if (rows <= 8) return {1, 1};
  if (rows <= 16) return {1, 2};
  if (rows <= 64) return {1, 4};
  return {2, 8};
}
inline constexpr int64_t Tiles(const MatrixView& matrix, int64_t rows) {
  const TileShape shape = TileShapeOf(rows);
  return (rows + shape.rows() - 1) / shape.rows() *
         ((matrix.panel_count() + shape.panels - 1) / shape.panels);
}

// Inputs of a slice that a warp multiplies at once, with all their weights, and floats
// from row to row of them: the same input of neighbouring rows is in different banks.
inline constexpr int kStagedInputs = 32;
inline constexpr int kStagedStride = kStagedInputs + 4;

// Shared memory of a warp: inputs and weights of a slice, and then its sums.
inline constexpr int64_t TileWarpFloats(const TileShape& shape) {
  return shape.rows() * kStagedStride + kStagedInputs * shape.outputs();
}
// Of the block; it also has the sums of the slices so far.
inline constexpr int64_t TiledLinearFloats(int64_t rows, int64_t warps) {
  const TileShape shape = TileShapeOf(rows);
  return shape.rows() * shape.outputs() + warps * TileWarpFloats(shape);
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

  // Writes sums [rows][kSumStride]. `row(r)` is the input of row r of the tile, for any
  // of its rows.
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

  // Likewise in int8; `rows` of the tile's rows are there.
  MNEMON_DEVICE void SetInt8(const Int8Rows& inputs, int rows) {
    constexpr int kTiles = kShape.rows() / 8;
    struct alignas(8) Two {
      uint32_t first, second;
    };
    struct Step {
      Two low[kPanels], high[kPanels];
      int32_t inputs[kTiles][2];
    };
    const int g = Lane() / 4, t = Lane() % 4;
    const Two* weights[kPanels];
    MNEMON_UNROLL
    for (int p = 0; p < kPanels; ++p)
      weights[p] = static_cast<const Two*>(SliceOf(p).weights) + g;
    const auto words = static_cast<int>((SliceOf(0).width + 3) / 4);
    // Rows that are not there are the last one's, and left out in the end.
    const auto there = [&](int row) { return Smaller(row, rows - 1); };
    int32_t sum[kPanels][kTiles][4];
    const int32_t* input[kTiles];
    MNEMON_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      input[n] = inputs.words(there(8 * n + g), slice_) + t;
      MNEMON_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int32_t start = inputs.start(there(8 * n + 2 * t + i % 2), slice_);
        MNEMON_UNROLL
        for (int p = 0; p < kPanels; ++p) sum[p][n][i] = start;
      }
    }
    const auto read = [&](int p, int word) {
      return word < words ? weights[p][word * (kPanel / 2)] : Two{0, 0};
    };
    ReadAhead<2>((words + 7) / 8,
                 [&](int s) {
                   Step step;
                   MNEMON_UNROLL
                   for (int p = 0; p < kPanels; ++p) {
                     step.low[p] = read(p, 8 * s + t);
                     step.high[p] = read(p, 8 * s + t + 4);
                   }
                   MNEMON_UNROLL
                   for (int n = 0; n < kTiles; ++n) {
                     step.inputs[n][0] = input[n][8 * s];
                     step.inputs[n][1] = input[n][8 * s + 4];
                   }
                   return step;
                 },
                 [&](int /*s*/, const Step& step) {
                   MNEMON_UNROLL
                   for (int p = 0; p < kPanels; ++p) {
                     const uint32_t a[4] = {step.low[p].first, step.low[p].second,
                                            step.high[p].first, step.high[p].second};
                     MNEMON_UNROLL
                     for (int n = 0; n < kTiles; ++n) {
                       MultiplyBytes(a, step.inputs[n], sum[p][n]);
                     }
                   }
                 });
    MNEMON_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      MNEMON_UNROLL
      for (int n = 0; n < kTiles; ++n) {
        MNEMON_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = 8 * n + 2 * t + i % 2;
          memory_[row * kSumStride + p * kPanel + 2 * g + i / 2] =
              static_cast<float>(sum[p][n][i]);
        }
      }
    }
  }

 private:
  // Of a panel of the tile; beyond the matrix's panels the last one's.
  MNEMON_DEVICE PanelSlice SliceOf(int panel) const {
    return {matrix_, Smaller(first_panel_ + panel, matrix_.panel_count() - 1), slice_};
  }

  MNEMON_DEVICE float* weights() const {
    return memory_ + kShape.rows() * kStagedStride;
  }

  // Brings inputs from .. from + count - 1 of the slice to shared memory, [rows]
  // [kStagedStride].
  template <class Row>
  MNEMON_DEVICE void StageInputs(const Row& row, int from, int count) {
    const int64_t at = slice_ * matrix_.slice + from;
    constexpr int kFours = kStagedInputs / 4, kCopies = kShape.rows() * kFours / kWarp;
    // Where all rows follow each other, addresses do.
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

  // Likewise weights: in float32 [inputs][outputs], in bf16 two inputs together.
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

  // Four outputs of staged inputs k .. k + 3. REQUIRES: k is a multiple of 4.
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
  // Likewise of one.
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

// Inputs in float32 of the rows of a tile; those that are not there are the last one's.
class TileRows {
 public:
  // `whole`: of a tile that has all its rows.
  MNEMON_DEVICE TileRows(const LinearCall& call, ConstRows prepared, int64_t first,
                         int count, int whole)
      : in_(prepared.data == nullptr ? call.in : prepared),
        pick_(prepared.data == nullptr ? call.pick : nullptr),
        first_(first),
        count_(count),
        plain_(pick_ == nullptr && count == whole) {}

  MNEMON_DEVICE const float* operator()(int r) const {
    const int64_t row = first_ + Smaller(r, count_ - 1);
    return in_.row(pick_ == nullptr ? row : pick_[row]);
  }
  MNEMON_DEVICE int64_t stride() const { return in_.stride; }
  // They follow each other.
  MNEMON_DEVICE bool plain() const { return plain_; }

 private:
  const ConstRows in_;
  const int32_t* const pick_;
  const int64_t first_;
  const int count_;
  const bool plain_;
};

template <int kPanels, int kEach>
class LinearTile {
 public:
  using Slice = TileSlice<kPanels, kEach>;
  static constexpr TileShape kShape = Slice::kShape;
  static constexpr int kWarpFloats = static_cast<int>(TileWarpFloats(kShape));

  // As of TiledLinear.
  MNEMON_DEVICE LinearTile(const LinearCall& call, bool factor, ConstRows prepared,
                           const SharedFloats& shared)
      : call_(call),
        factor_(factor),
        prepared_(prepared),
        totals_(shared.data),
        warp_memory_(shared.data + kShape.rows() * kShape.outputs()),
        warps_(Smaller(WarpCount(), (static_cast<int>(shared.count) -
                                     kShape.rows() * kShape.outputs()) /
                                        kWarpFloats)) {}

  MNEMON_DEVICE void Run(int64_t tile) {
    const auto across =
        static_cast<int>((call_.weights.panel_count() + kPanels - 1) / kPanels);
    const int down = static_cast<int>(tile) / across;
    first_row_ = down * kShape.rows();
    rows_ = static_cast<int>(Smaller<int64_t>(kShape.rows(), call_.rows - first_row_));
    first_panel_ = (static_cast<int>(tile) - down * across) * kPanels;
    const auto slices = static_cast<int>(matrix().slices());
    for (int first = 0; first < slices; first += warps_) {
      const int count = Smaller(warps_, slices - first);
      if (WarpIndex() < count) SetSlice(first + WarpIndex());
      Barrier();
      Add(first, count, first + count == slices);
      Barrier();
    }
  }

 private:
  MNEMON_DEVICE const MatrixView& matrix() const { return call_.weights; }
  MNEMON_DEVICE float* MemoryOf(int warp) const {
    return warp_memory_ + warp * kWarpFloats;
  }

  MNEMON_DEVICE void SetSlice(int slice) const {
    Slice sums(matrix(), first_panel_, slice, MemoryOf(WarpIndex()));
    if (matrix().format == WeightFormat::kInt8) {
      return sums.SetInt8(Int8Rows(matrix(), prepared_, first_row_), rows_);
    }
    const TileRows rows(call_, prepared_, first_row_, rows_, kShape.rows());
    if (matrix().format == WeightFormat::kBf16) {
      sums.template SetFloats<true>(rows);
    } else {
      sums.template SetFloats<false>(rows);
    }
  }

  // Adds the slices that are there to the totals; the last ones finish the outputs.
  MNEMON_DEVICE void Add(int first, int count, bool last) {
    constexpr int kQuads = Slice::kQuads;
    for (int n = ThreadIndex(); n < rows_ * kQuads; n += ThreadCount()) {
      const int r = n / kQuads, quad = n % kQuads;
      const int64_t number = first_panel_ * kPanel + quad * 4;
      if (number >= matrix().outputs) continue;
      Four* const total_at = reinterpret_cast<Four*>(totals_) + n;
      Four total{};
      if (first > 0) total = *total_at;
      const float* const sums = warp_memory_ + r * Slice::kSumStride + quad * 4;
      const auto sum = [&](int i) {
        return *reinterpret_cast<const Four*>(sums + i * kWarpFloats);
      };
      if (matrix().format == WeightFormat::kInt8) {
        AddInt8(Int8Rows(matrix(), prepared_, first_row_), r, first, count,
                matrix().scales + number, sum, total);
      } else {
        int i = 0;
        if (first == 0) total = sum(i++);
        MNEMON_NO_UNROLL
        for (; i < count; ++i) {
          const Four more = sum(i);
          MNEMON_UNROLL
          for (int o = 0; o < 4; ++o) total.at[o] += more.at[o];
        }
      }
      if (last) {
        Finish(total, first_row_ + r, number);
      } else {
        *total_at = total;
      }
    }
  }

  // `scales`: of the four outputs.
  template <class Sum>
  MNEMON_DEVICE void AddInt8(const Int8Rows& inputs, int r, int first, int count,
                             const float* scales, const Sum& sum, Four& total) const {
    const Four scale = *reinterpret_cast<const Four*>(scales);
    ReadAhead(
        count, [&](int i) { return inputs.scale(r, first + i); },
        [&](int i, float of_row) {
          const Four more = sum(i);
          MNEMON_UNROLL
          for (int o = 0; o < 4; ++o) {
            total.at[o] = Fma(more.at[o], of_row * scale.at[o], total.at[o]);
          }
        });
  }

  MNEMON_DEVICE void Finish(const Four& total, int64_t row, int64_t number) const {
    const bool nothing = SeesNothing(call_.key_ranges, row);
    Four before{};
    if (call_.residual.data != nullptr) {
      MNEMON_UNROLL
      for (int o = 0; o < 4; ++o) {
        if (number + o < matrix().outputs)
          before.at[o] = call_.residual.row(row)[number + o];
      }
    }
    MNEMON_UNROLL
    for (int o = 0; o < 4; ++o) {
      if (number + o < matrix().outputs) {
        float sum = total.at[o];
        if (matrix().bias != nullptr) sum += matrix().bias[number + o];
        FinishLinear(call_, factor_, sum, row, number + o, before.at[o], nothing);
      }
    }
  }

  const LinearCall& call_;
  const bool factor_;
  const ConstRows prepared_;
  float* const totals_;       // [rows][outputs]
  float* const warp_memory_;  // of each warp kWarpFloats
  const int warps_;           // that have some
  int64_t first_row_ = 0, first_panel_ = 0;
  int rows_ = 0;
};

template <int kPanels, int kEach>
MNEMON_DEVICE void RunTiles(const LinearCall& call, bool factor, ConstRows prepared,
                            Share share, const SharedFloats& shared) {
  LinearTile<kPanels, kEach> tile(call, factor, prepared, shared);
  const int64_t tiles = Tiles(call.weights, call.rows), end = share.end(tiles);
  for (int64_t i = share.begin(tiles); i < end; ++i) tile.Run(i);
}

// `prepared`: the call's rows, where they need be. A call with a gate is two, the
// second of which, `factor`, has the gate as its weights and multiplies what the first
// wrote. REQUIRES: TiledLinearFloats of these rows and one warp at least.
MNEMON_DEVICE void TiledLinear(const LinearCall& call, bool factor, ConstRows prepared,
                               Share share, const SharedFloats& shared) {
  switch (TileShapeOf(call.rows).each) {
    case 1:
      return RunTiles<1, 1>(call, factor, prepared, share, shared);
    case 2:
      return RunTiles<1, 2>(call, factor, prepared, share, shared);
    case 4:
      return RunTiles<1, 4>(call, factor, prepared, share, shared);
    default:
      return RunTiles<2, 8>(call, factor, prepared, share, shared);
  }
}

}  // namespace mnemon::device
