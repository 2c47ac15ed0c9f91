// SPDX-License-Identifier: MIT
// Input rows of a matrix prepared for a tiled product in global memory, once for all
// blocks: in float32 and normed, or in int8 slice by slice. C++17.
#pragma once

#include "model/compute/cuda/linear.h"

namespace mnemon::device {

// Whether a call's rows must be prepared; otherwise they are read in place.
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

// Writes the rows of a call to `out`; called by all blocks together.
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
            const int32_t* const words = tile.int8().row(r);
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
MNEMON_DEVICE Int8Rows PreparedInt8(const MatrixView& matrix, ConstRows prepared,
                                    int64_t first) {
  return {matrix, static_cast<int>(matrix.slices()),
          reinterpret_cast<const int32_t*>(prepared.row(first)), prepared.stride};
}

}  // namespace mnemon::device
