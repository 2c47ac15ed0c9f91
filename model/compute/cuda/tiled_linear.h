// SPDX-License-Identifier: MIT
// Linear of kernels.h on a device for many rows. All threads of a block call it; the
// block is the share's worker. A block computes tiles of rows and outputs; each warp
// sums one slice of a tile, with four outputs of some rows in each lane's registers, or
// in int8 by products of bytes. The slices are added upward in shared memory. C++17.
#pragma once

#include "model/compute/cuda/tile_slice.h"

namespace mnemon::device {

// Tile shape for `rows` rows: few rows are one tile; with many, a weight is used for as
// many rows as registers hold.
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

// Shared memory of the block, which includes the sums of the slices so far.
inline constexpr int64_t TiledLinearFloats(int64_t rows, int64_t warps) {
  const TileShape shape = TileShapeOf(rows);
  return shape.rows() * shape.outputs() + warps * TileWarpFloats(shape);
}

// Inputs in float32 of the rows of a tile; missing rows repeat the last one.
class TileRows {
 public:
  // `whole`: the tile has all its rows.
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
  // Whether the rows are contiguous.
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

  // See TiledLinear.
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
      return sums.SetInt8(PreparedInt8(matrix(), prepared_, first_row_), rows_);
    }
    const TileRows rows(call_, prepared_, first_row_, rows_, kShape.rows());
    if (matrix().format == WeightFormat::kBf16) {
      sums.template SetFloats<true>(rows);
    } else {
      sums.template SetFloats<false>(rows);
    }
  }

  // Adds the finished slices to the totals; the last ones complete the outputs.
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
        AddInt8(PreparedInt8(matrix(), prepared_, first_row_), r, first, count,
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

// `prepared`: the call's rows, if they need preparation. A call with a gate is executed
// as two: the second, with `factor`, has the gate as its weights and multiplies what
// the first wrote. REQUIRES: TiledLinearFloats of these rows and at least one warp.
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
