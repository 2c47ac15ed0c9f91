// SPDX-License-Identifier: MIT
// Matrix products of training, for float and, to check gradients, for double. Each
// number of a product is a function of its own row of A and column of B: sums run
// upward over the depth in slices of kSliceDepth, aligned to multiples of it, each with
// one accumulator and multiply-adds; slices are added upward. Float thus has the same
// bits on every instruction set and for any division of the work by rows or columns.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/aligned_floats.h"

namespace mnemon {

inline constexpr int64_t kSliceDepth = 256;

// Columns per panel of a packed operand.
inline constexpr int64_t kColumnPanel = 16;

// Columns, padded to whole panels.
inline constexpr int64_t WholePanels(int64_t columns) {
  return (columns + kColumnPanel - 1) / kColumnPanel * kColumnPanel;
}

template <class Real>
using AlignedVector = std::vector<Real, UnsetAllocator<Real>>;

// Ensures at least `size` numbers; growing discards values.
template <class Real>
void Grow(AlignedVector<Real>& vector, int64_t size) {
  if (static_cast<int64_t>(vector.size()) < size) {
    vector.resize(static_cast<size_t>(size));
  }
}

// Element (r, d) of A is data[r * row + d * depth].
template <class Real>
struct LeftOperand {
  const Real* data = nullptr;
  int64_t row = 0;
  int64_t depth = 1;
};

// Element (d, c) of B is data[c / 16 * panel + d * depth + c % 16]: a row-major matrix
// has panel 16. Whole panels are read.
template <class Real>
struct RightOperand {
  const Real* data = nullptr;
  int64_t depth = 0;
  int64_t panel = kColumnPanel;
};

// out = [from +] [bias +] A B, then max(0, .) if `relu`. Rows of `out` and `from` are
// `stride` apart; `from` may be `out`.
template <class Real>
struct ProductCall {
  int64_t rows = 0, columns = 0, depth = 0;
  LeftOperand<Real> a;
  RightOperand<Real> b;
  const Real* from = nullptr;  // [rows, columns]; null: zeros
  int64_t from_stride = 0;
  const Real* bias = nullptr;  // [columns]; null: none
  bool relu = false;
  Real* out = nullptr;  // [rows, columns]
  int64_t out_stride = 0;
};

// Pure functions, for any thread.
void Multiply(const ProductCall<float>& call);
void Multiply(const ProductCall<double>& call);

// An owned matrix in panels: the fastest right operand.
template <class Real>
class PackedOperand {
 public:
  // Allocates [depth, columns]; contents are lost. May throw std::bad_alloc.
  void Reserve(int64_t depth, int64_t columns);

  // Fills columns 16 panel .. 16 panel + 15 from `data`, whose element (d, c) is data[d
  // * row + c * column]; columns past the last become zero. Several threads may fill
  // panels at once.
  void Fill(int64_t panel, const Real* data, int64_t row, int64_t column);
  void FillAll(const Real* data, int64_t row, int64_t column) {
    for (int64_t p = 0; p < panels(); ++p) Fill(p, data, row, column);
  }

  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }
  int64_t panels() const { return (columns_ + kColumnPanel - 1) / kColumnPanel; }
  RightOperand<Real> view() const {
    return {
        .data = data_.data(), .depth = kColumnPanel, .panel = depth_ * kColumnPanel};
  }

 private:
  int64_t depth_ = 0, columns_ = 0;
  AlignedVector<Real> data_;
};

}  // namespace mnemon
