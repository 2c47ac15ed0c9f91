// SPDX-License-Identifier: MIT
// Computation of gradients of weights once all their rows are complete: a list of sums
// over rows, divided into units that threads take one by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "model/compute/gradient/row_operations.h"
#include "model/compute/gradient/weight_gradient.h"

namespace mnemon {

// Sums over rows of gradients of vectors: a bias or, with x, gain and bias of a norm.
// One call may compute several biases.
template <class Real>
struct VectorGradientCall {
  struct Part {
    RowLayout layout;
    RowsOfReal<const Real> dz;
    RowsOfReal<const Real> x;       // null data: only a bias
    const Real* moments = nullptr;  // of the rows of x
  };
  int64_t width = 0;
  std::vector<Part> parts;
  Shards shards;
  Real* gain = nullptr;  // [width]; null: none
  Real* bias = nullptr;  // [width]; null: none
  // Vector i has its rows at offset i * from, and its sum at offset i * to, from the
  // first vector's.
  int64_t vectors = 1, from = 0, to = 0;
};

// dE = sum of scale dx[r] in its row ids[r].
template <class Real>
struct EmbeddingGradientCall {
  int64_t vocab = 0, width = 0;
  RowLayout layout;
  const int32_t* ids = nullptr;
  RowsOfReal<const Real> dx;
  Real scale = 1;
  Shards shards;
  Real* out = nullptr;  // [V, D]
};

template <class Real>
class GradientJobs {
 public:
  void Clear();
  void Add(WeightGradientCall<Real> call);
  void Add(VectorGradientCall<Real> call);
  void Add(EmbeddingGradientCall<Real> call);

  // Computes units until none is left. Every thread calls it once, with its own
  // scratch; the gradients are complete when all calls have returned.
  void Work(GradientScratch<Real>& scratch);

 private:
  std::vector<WeightGradientCall<Real>> matrices_;
  std::vector<VectorGradientCall<Real>> vectors_;
  std::vector<EmbeddingGradientCall<Real>> embeddings_;
  struct Unit {
    enum Kind : uint8_t { kMatrix, kVector, kEmbedding } kind;
    size_t call;
    int64_t unit;
  };
  std::vector<Unit> units_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace mnemon
