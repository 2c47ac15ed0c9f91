// SPDX-License-Identifier: MIT
// Scratch memory that a worker needs for products on the CPU.
#pragma once

#include <cstdint>

#include "model/compute/kernels.h"

namespace mnemon {

// Inputs of a matrix that go through scratch memory at a time.
inline constexpr int64_t kScratchInputs = 256;

// Enough for any format; in int8 for slices that HoldsInt8.
int64_t LinearScratch(int64_t rows, int64_t inputs);
// Enough for the slices of this matrix.
int64_t LinearScratch(int64_t rows, const MatrixView& weights);
inline int64_t ScratchFloats(const LinearCall& call) {
  return LinearScratch(call.rows, call.weights);
}
inline int64_t ScratchFloats(const PartsCall& call) {
  return LinearScratch(call.rows, call.weights);
}

}  // namespace mnemon
