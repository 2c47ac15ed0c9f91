// SPDX-License-Identifier: MIT
// Some rows of a matrix's inputs in a block's shared memory: in float32, optionally
// normed, or in int8 slice by slice. C++17.
#pragma once

#include "model/compute/cuda/row_operations.h"

namespace mnemon::device {

// Rows that a thread multiplies by each weight that it reads.
inline constexpr int kTileRows = 8;

// Words of four int8 inputs per slice, padded for whole products of bytes.
inline constexpr int64_t SliceWords(const MatrixView& matrix) {
  return (matrix.slice + 31) / 32 * 8;
}
// Words from row to row: all slices, their starts and their scales. The same words of
// all rows are in different banks.
inline constexpr int64_t RowWords(const MatrixView& matrix, int64_t slices) {
  return (slices * (SliceWords(matrix) + 2) + 7) / 8 * 8 + 4;
}
// Floats from row to row; rows are aligned to 16 bytes.
inline constexpr int64_t RowFloats(const MatrixView& matrix) {
  return (matrix.inputs + 3) / 4 * 4;
}

// Rows in int8, at least RowWords apart.
class Int8Rows {
 public:
  MNEMON_DEVICE Int8Rows(const MatrixView& matrix, int slices, const int32_t* words,
                         int64_t stride)
      : slices_(slices),
        slice_words_(static_cast<int>(SliceWords(matrix))),
        words_(words),
        stride_(stride) {}

  MNEMON_DEVICE const int32_t* row(int64_t row) const { return words_ + row * stride_; }
  // Inputs of the i-th slice.
  MNEMON_DEVICE const int32_t* words(int64_t r, int i) const {
    return row(r) + i * slice_words_;
  }
  // Minus 128 times the sum of the inputs: weights are stored as w + 128.
  MNEMON_DEVICE int32_t start(int64_t r, int i) const {
    return row(r)[slices_ * slice_words_ + i];
  }
  MNEMON_DEVICE float scale(int64_t r, int i) const {
    return BitsAsFloat(static_cast<uint32_t>(row(r)[slices_ * (slice_words_ + 1) + i]));
  }

 private:
  const int slices_, slice_words_;
  const int32_t* const words_;
  const int64_t stride_;
};

class InputTile {
 public:
  // Floats of one row with some slices.
  static constexpr int64_t FloatsOfRow(const MatrixView& matrix, int64_t slices) {
    const bool int8 = matrix.format == WeightFormat::kInt8;
    return RowFloats(matrix) + (int8 ? RowWords(matrix, slices) : 0);
  }

  // A tile of `rows` rows with all slices.
  MNEMON_DEVICE InputTile(const MatrixView& matrix, int slices, int64_t rows,
                          float* memory)
      : matrix_(matrix),
        slices_(slices),
        inputs_(memory),
        words_(reinterpret_cast<int32_t*>(inputs_ + rows * RowFloats(matrix))) {}

  MNEMON_DEVICE const float* inputs(int row, int64_t slice) const {
    return inputs_ + row * stride() + slice * matrix_.slice;
  }
  MNEMON_DEVICE int stride() const { return static_cast<int>(RowFloats(matrix_)); }
  MNEMON_DEVICE Int8Rows int8() const {
    return {matrix_, slices_, words_, row_words()};
  }

  // Sets a row; called by a warp. In int8 a Quantise of each slice follows.
  MNEMON_DEVICE void Set(int row, const float* in, const NormView& norm) {
    float* const to = inputs_ + row * stride();
    ReadAhead<16>((static_cast<int>(matrix_.inputs) - Lane() + kWarp - 1) / kWarp,
                  [&](int i) { return in[Lane() + i * kWarp]; },
                  [&](int i, float x) { to[Lane() + i * kWarp] = x; });
    if (norm.gain == nullptr) return;
    WarpBarrier();
    NormRow(to, static_cast<int>(matrix_.inputs), norm);
  }

  // Called by a warp, after a barrier that follows Set.
  MNEMON_DEVICE void Quantise(int row, int i) {
    const int64_t width = Smaller(matrix_.slice, matrix_.inputs - i * matrix_.slice);
    const float* const x = inputs(row, i);
    float most = 0, doubt = 0;  // NaN if a number is not finite
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
    int32_t* const to = RowOf(row) + i * slice_words();
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
    const float scale = !(doubt == 0.0f) ? doubt : zeros ? 0.0f : Divide(most, 127.0f);
    int32_t* const after = RowOf(row) + slices_ * slice_words() + i;
    after[0] = -128 * sum;
    memcpy(after + slices_, &scale, sizeof(scale));
  }

 private:
  MNEMON_DEVICE int slice_words() const {
    return static_cast<int>(SliceWords(matrix_));
  }
  MNEMON_DEVICE int row_words() const {
    return static_cast<int>(RowWords(matrix_, slices_));
  }
  MNEMON_DEVICE int32_t* RowOf(int row) const { return words_ + row * row_words(); }

  const MatrixView& matrix_;
  const int slices_;
  float* const inputs_;
  int32_t* const words_;
};

}  // namespace mnemon::device
