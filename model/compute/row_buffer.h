// SPDX-License-Identifier: MIT
// Rows that the operations of a step read and write.
#pragma once

#include <cstdint>

#include "base/memory/aligned_floats.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Floats from row to row of a buffer: an odd number of cache lines, since rows a power
// of two apart compete for the same cache sets.
inline int64_t RowStride(int64_t width) { return ((width + 15) / 16 | 1) * 16; }

class RowBuffer {
 public:
  // Discards the contents; new contents are not set. May throw std::bad_alloc.
  void Resize(int64_t rows, int64_t width) {
    stride_ = RowStride(width);
    floats_.clear();  // so that resize does not copy them
    floats_.resize(static_cast<size_t>(rows * stride_));
  }

  Rows rows() { return {floats_.data(), stride_}; }

 private:
  int64_t stride_ = 0;
  UnsetFloats floats_;
};

}  // namespace mnemon
