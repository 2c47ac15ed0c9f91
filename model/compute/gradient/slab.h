// SPDX-License-Identifier: MIT
// Memory for rows of activations or gradients, kept from pass to pass.
#pragma once

#include <cstdint>

#include "model/compute/gradient/product.h"
#include "model/compute/gradient/row_operations.h"

namespace mnemon {

template <class Real>
class Slab {
 public:
  // Growing discards the contents. May throw std::bad_alloc.
  void Reserve(int64_t rows, int64_t width) {
    width_ = width;
    // Rows a power of two apart would map to few sets of the L1 cache.
    stride_ = WholePanels(width);
    if (stride_ % 64 == 0) stride_ += kColumnPanel;
    Grow(data_, rows * stride_);
  }

  int64_t width() const { return width_; }
  const Real* row(int64_t r) const { return data_.data() + r * stride_; }
  RowsOfReal<Real> rows(int64_t first = 0, int64_t column = 0) {
    return {data_.data() + first * stride_ + column, stride_};
  }

 private:
  int64_t width_ = 0, stride_ = 0;
  AlignedVector<Real> data_;
};

}  // namespace mnemon
