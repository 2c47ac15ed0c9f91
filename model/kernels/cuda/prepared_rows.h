// SPDX-License-Identifier: MIT
// Rows of inputs of a matrix as a tiled product reads them, in global memory, made once
// for all blocks: in float32 and normed, or in int8 slice by slice. C++17.
#pragma once

#include "model/kernels/cuda/linear.h"

namespace mnemon::device {

// Whether a call's rows must be prepared; others are read where they are.
inline constexpr bool NeedsPreparedRows(const LinearCall& call) {
  return call.norm.gain != nullptr || call.weights.format == WeightFormat::kInt8;
}

// Floats of a prepared row.
inline constexpr int64_t PreparedFloats(const MatrixView& matrix) {
  return matrix.format == WeightFormat::kInt8 ? RowWords(matrix, matrix.slices())
                                              : RowFloats(matrix);
}

// Shared memory of a block.
inline constexpr int64_t PrepareRowsFloats(const MatrixView& matrix) {
  return InputTile::FloatsOfRow(matrix, matrix.slices());
}

// Writes the rows of a call to `out`, all blocks together.
MNEMON_DEVICE void PrepareRows(const LinearCall& call, Share share, float* shared,
                               Rows out) {
  const MatrixView& matrix = call.weights;
  const int64_t begin = share.begin(call.rows), end = share.end(call.rows);
  EachTile(
      matrix, static_cast<int>(matrix.slices()), end - begin, /*at_once=*/1, call.norm,
      shared,
      [&](int64_t r) {
        r += begin;
        return call.in.row(call.pick == nullptr ? r : call.pick[r]);
      },
      [&](const InputTile& tile, int64_t first, int rows) {
        for (int r = 0; r < rows; ++r) {
          float* const to = out.row(begin + first + r);
          if (matrix.format == WeightFormat::kInt8) {
            const int32_t* const words = tile.words(r, 0);
            const auto count = static_cast<int>(PreparedFloats(matrix));
            for (int i = ThreadIndex(); i < count; i += ThreadCount()) {
              reinterpret_cast<int32_t*>(to)[i] = words[i];
            }
          } else {
            for (int i = ThreadIndex(); i < matrix.inputs; i += ThreadCount()) {
              to[i] = tile.inputs(r, 0)[i];
            }
          }
        }
        Barrier();
      });
}

// Rows that PrepareRows has written in int8, from row `first` of a call on.
class Int8Rows {
 public:
  MNEMON_DEVICE Int8Rows(const MatrixView& matrix, ConstRows prepared, int64_t first)
      : slices_(static_cast<int>(matrix.slices())),
        slice_words_(static_cast<int>(SliceWords(matrix))),
        prepared_{prepared.row(first), prepared.stride} {}

  // As of InputTile.
  MNEMON_DEVICE const int32_t* words(int row, int i) const {
    return RowOf(row) + i * slice_words_;
  }
  MNEMON_DEVICE int32_t start(int row, int i) const {
    return RowOf(row)[slices_ * slice_words_ + i];
  }
  MNEMON_DEVICE float scale(int row, int i) const {
    return prepared_.row(row)[slices_ * (slice_words_ + 1) + i];
  }

 private:
  MNEMON_DEVICE const int32_t* RowOf(int row) const {
    return reinterpret_cast<const int32_t*>(prepared_.row(row));
  }

  const int slices_, slice_words_;
  const ConstRows prepared_;
};

}  // namespace mnemon::device
