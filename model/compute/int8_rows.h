// SPDX-License-Identifier: MIT
// Rows as int8 and their products with an int8 matrix, for one target. A slice of a row
// becomes q = round(x 127 / amax), where amax is its largest magnitude, with scale amax
// / 127: zeros if amax < kSmallest, and a scale that is not a number if any number of
// it is NaN or infinite (docs/numerics.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Most panels at once, for one row and for many.
inline constexpr int64_t kInt8RowPanels = 8;
inline constexpr int64_t kInt8TilePanels = 2;

// Floats for the totals of these.
inline int64_t Int8TotalFloats(int64_t rows) {
  return std::max(kInt8RowPanels, kInt8TilePanels * rows) * kPanel;
}

// Layout of some slices of some rows: for each slice an int32 start value of its sums,
// then its inputs, padded with zeros to groups of four. After the rows come their
// scales [rows, slices].
struct Int8Room {
  int64_t rows = 0, slices = 0;
  int64_t slice_bytes = 0;  // from slice to slice
  int64_t row_bytes = 0;    // from row to row: an odd number of cache lines

  Int8Room(int64_t r, const MatrixView& matrix, Part some)
      : rows(r),
        slices(some.size()),
        slice_bytes(Bytes(matrix.slice)),
        row_bytes(
            ((slices - 1) * slice_bytes + Bytes(Width(matrix, some.end - 1)) + 63) /
                64 * 64 |
            64) {}

  static int64_t Width(const MatrixView& matrix, int64_t slice) {
    return std::min(matrix.slice, matrix.inputs - slice * matrix.slice);
  }
  int64_t floats() const { return rows * (row_bytes / 4 + slices); }

 private:
  static int64_t Bytes(int64_t inputs) { return 4 + (inputs + 3) / 4 * 4; }
};

// Totals of all rows with a few panels: from 0, fma(float(sum), row scale x output
// scale, total), slices upward.
struct Int8Product {
  Int8Room room;
  const char* in = nullptr;           // row 0, slice `slices.begin`
  const float* row_scales = nullptr;  // likewise
  int64_t row_scale_stride = 0;
  const MatrixView& matrix;
  Part slices;
  int64_t panel = 0;
  int64_t panels = 1;
  const float* output_scales = nullptr;  // [panels][16]
  float* totals = nullptr;               // [rows][panels][16]
};

// One implementation of int8 products. All give the same bits.
struct Int8Kernels {
  const char* name;
  // Quantises one slice, [count] of x; returns the scale.
  float (*quantise)(const float* x, int64_t count, char* to);
  void (*multiply)(const Int8Product& product);
};

}  // namespace mnemon
