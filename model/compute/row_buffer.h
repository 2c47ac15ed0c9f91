// SPDX-License-Identifier: MIT
// Rows that the operations of a step read and write.
#pragma once

#include <cstdint>

#include "base/aligned_floats.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Floats from row to row of a buffer: an odd number of cache lines. Rows a power of two
// apart compete for the same places of a cache.
inline int64_t RowStride(int64_t width) { return ((width + 15) / 16 | 1) * 16; }

class RowBuffer {
 public:
  // What it held is gone, what it holds is not set. May throw std::bad_alloc.
  void Resize(int64_t rows, int64_t width) {
    stride_ = RowStride(width);
    floats_.clear();  // else resize would copy them
    floats_.resize(static_cast<size_t>(rows * stride_));
  }

  Rows rows() { return {floats_.data(), stride_}; }

 private:
  int64_t stride_ = 0;
  UnsetFloats floats_;
};

}  // namespace mnemon
