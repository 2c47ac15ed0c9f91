// SPDX-License-Identifier: MIT
// Gradients of weights: sums over all rows of a batch. Rows of a shard are added in
// order, in slices of kSliceDepth, and shards in their tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/partition.h"
#include "model/compute/gradient/product.h"
#include "model/compute/gradient/shards.h"

namespace mnemon {

// Rows of an array in pieces: row r is its row first + r / length * stride + r %
// length.
struct RowPieces {
  int64_t first = 0, count = 0;
  int64_t length = 1, stride = 1;

  int64_t at(int64_t r) const { return first + r / length * stride + r % length; }
};

// How the rows of an array are assigned to the `sequences` of a batch.
struct RowLayout {
  int64_t sequences = 0;     // B
  int64_t each = 0;          // rows per sequence
  bool interleaved = false;  // row t of all sequences, then row t + 1, ..
};

// Rows of sequences begin .. end - 1.
inline RowPieces RowsOf(const RowLayout& layout, Part sequences) {
  const int64_t count = sequences.size() * layout.each;
  if (!layout.interleaved) {
    return {sequences.begin * layout.each, count, std::max<int64_t>(1, count), 1};
  }
  return {sequences.begin, count, std::max<int64_t>(1, sequences.size()),
          layout.sequences};
}

// Rows dY and X whose outer products are added.
template <class Real>
struct RowPairs {
  RowLayout layout;
  const Real* dy = nullptr;  // [rows, N]
  int64_t dy_stride = 0;
  const Real* x = nullptr;  // [rows, K]
  int64_t x_stride = 0;
};

// dW = sum of dY^T X over all parts, in their order.
template <class Real>
struct WeightGradientCall {
  int64_t outputs = 0, inputs = 0;  // N, K
  std::vector<RowPairs<Real>> parts;
  Shards shards;
  Real* out = nullptr;  // [N, K]
};

// Scratch of one thread for all calls.
template <class Real>
struct GradientScratch {
  AlignedVector<Real> left, right, sums;
};

// Units may be computed in any order and by several threads, each with its own scratch.
template <class Real>
int64_t Units(const WeightGradientCall<Real>& call);
template <class Real>
void ComputeUnit(const WeightGradientCall<Real>& call, int64_t unit,
                 GradientScratch<Real>& scratch);

}  // namespace mnemon
