// SPDX-License-Identifier: MIT
// Some rows of inputs of a matrix in a block's shared memory: in float32, normed where
// that is asked for, or in int8 slice by slice. C++17.
#pragma once

#include "model/kernels/cuda/row_operations.h"

namespace mnemon::device {

// Rows that a thread multiplies with each weight that it reads.
inline constexpr int kTileRows = 8;

// Words of four int8 inputs in each slice, with room for whole products of bytes.
inline constexpr int64_t SliceWords(const MatrixView& matrix) {
  return (matrix.slice + 31) / 32 * 8;
}
// From row to row, so that the same words of all rows are in different banks.
inline constexpr int64_t RowWords(const MatrixView& matrix, int64_t slices) {
  return slices * SliceWords(matrix) + 4;
}

// Where the parts of a tile of `rows` rows lie.
class InputTile {
 public:
  // Room for one row and some slices.
  static constexpr int64_t FloatsOfRow(const MatrixView& matrix, int64_t slices) {
    const bool int8 = matrix.format == WeightFormat::kInt8;
    return matrix.inputs + (int8 ? RowWords(matrix, slices) + 2 * slices : 0);
  }

  MNEMON_DEVICE InputTile(const MatrixView& matrix, Part slices, int64_t rows,
                          float* memory)
      : matrix_(matrix),
        slices_(slices),
        inputs_(memory),
        words_(reinterpret_cast<int32_t*>(inputs_ + rows * matrix.inputs)),
        starts_(words_ + rows * RowWords(matrix, slices.size())),
        scales_(reinterpret_cast<float*>(starts_ + rows * slices.size())) {}

  MNEMON_DEVICE const float* inputs(int64_t row, int64_t slice) const {
    return inputs_ + row * matrix_.inputs + slice * matrix_.slice;
  }
  // In int8; slices count from the tile's first.
  MNEMON_DEVICE const int32_t* words(int64_t row, int64_t i) const {
    return words_ + row * RowWords(matrix_, slices_.size()) + i * SliceWords(matrix_);
  }
  // Minus 128 times the sum of the inputs: weights are stored as w + 128.
  MNEMON_DEVICE int32_t start(int64_t row, int64_t i) const {
    return starts_[row * slices_.size() + i];
  }
  MNEMON_DEVICE float scale(int64_t row, int64_t i) const {
    return scales_[row * slices_.size() + i];
  }

  // Sets a row, by a warp.
  MNEMON_DEVICE void Set(int64_t row, const float* in, const NormView& norm) {
    float* const to = inputs_ + row * matrix_.inputs;
    if (norm.gain != nullptr) {
      NormRow(in, matrix_.inputs, norm, to);
    } else {
      for (int64_t k = Lane(); k < matrix_.inputs; k += kWarp) to[k] = in[k];
    }
    if (matrix_.format != WeightFormat::kInt8) return;
    WarpBarrier();
    for (int64_t i = 0; i < slices_.size(); ++i) Quantise(row, i);
  }

 private:
  MNEMON_DEVICE void Quantise(int64_t row, int64_t i) {
    const int64_t slice = slices_.begin + i;
    const int64_t width =
        Smaller(matrix_.slice, matrix_.inputs - slice * matrix_.slice);
    const float* const x = inputs(row, slice);
    float most = 0, doubt = 0;  // NaN where a number is not finite
    for (int64_t k = Lane(); k < width; k += kWarp) {
      most = Larger(fabsf(x[k]), most);
      doubt += NotFinite(x[k]);
    }
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      most = Larger(Shuffle(most, Lane() ^ apart), most);
      doubt += Shuffle(doubt, Lane() ^ apart);
    }
    const bool zeros = most < kSmallest || !(doubt == 0.0f);
    const float inverse = zeros ? 0.0f : Divide(127.0f, most);
    int32_t* const to = const_cast<int32_t*>(words(row, i));
    int32_t sum = 0;
    for (int64_t word = Lane(); word * 4 < width; word += kWarp) {
      uint32_t bytes = 0;
      for (int k = 0; k < 4 && word * 4 + k < width; ++k) {
        constexpr float kOnes = 0x1.8p23f;  // rounds to even: its last place is 1
        const float product = zeros ? 0.0f : x[word * 4 + k] * inverse;
        const auto q = static_cast<int32_t>((product + kOnes) - kOnes);
        sum += q;
        bytes |= (static_cast<uint32_t>(q) & 0xFF) << (8 * k);
      }
      to[word] = static_cast<int32_t>(bytes);
    }
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      sum += Shuffle(sum, Lane() ^ apart);
    }
    if (Lane() != 0) return;
    starts_[row * slices_.size() + i] = -128 * sum;
    scales_[row * slices_.size() + i] = !(doubt == 0.0f) ? doubt
                                        : zeros          ? 0.0f
                                                         : Divide(most, 127.0f);
  }

  const MatrixView& matrix_;
  const Part slices_;
  float* const inputs_;
  int32_t* const words_;
  int32_t* const starts_;
  float* const scales_;
};

}  // namespace mnemon::device
