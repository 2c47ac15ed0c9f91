// SPDX-License-Identifier: MIT
// Rows as int8 and their products with a matrix of int8, as one target computes them.
// A slice of a row becomes q = round(x 127 / amax), amax its largest number in size,
// with a scale of amax / 127: zeros where amax < kSmallest, and a scale that is not a
// number where a number of it is none or infinite (docs/numerics.md).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/partition.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Most panels at once, with one row and with many.
inline constexpr int64_t kInt8RowPanels = 8;
inline constexpr int64_t kInt8TilePanels = 2;

// Totals of those.
inline int64_t Int8TotalFloats(int64_t rows) {
  return std::max(kInt8RowPanels, kInt8TilePanels * rows) * kPanel;
}

// Where some slices of some rows go: for each slice an int32 with which its sums start,
// then its inputs, and zeros up to whole groups of four. Behind the rows their scales
// [rows, slices].
struct Int8Room {
  int64_t rows = 0, slices = 0;
  int64_t slice_bytes = 0;  // from slice to slice
  int64_t row_bytes = 0;    // from row to row: whole cache lines, an odd number

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
  const char* in = nullptr;           // of row 0, slice `slices.begin`
  const float* row_scales = nullptr;  // likewise
  int64_t row_scale_stride = 0;
  const MatrixView& matrix;
  Part slices;
  int64_t panel = 0;
  int64_t panels = 1;
  const float* output_scales = nullptr;  // [panels][16]
  float* totals = nullptr;               // [rows][panels][16]
};

// One way to multiply int8. All give the same bits.
struct Int8Kernels {
  const char* name;
  // One slice, [count] of x; returns the scale.
  float (*quantise)(const float* x, int64_t count, char* to);
  void (*multiply)(const Int8Product& product);
};

}  // namespace mnemon
