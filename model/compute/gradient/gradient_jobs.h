// SPDX-License-Identifier: MIT
// The gradients of some weights, once all rows that they are made of are there: a list
// of sums over rows, cut into units that threads take one by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "model/compute/gradient/row_operations.h"
#include "model/compute/gradient/weight_gradient.h"

namespace mnemon {

// Sums over rows of gradients of vectors: a bias or, with x, both of a norm. Several
// biases may be computed by one call.
template <class Real>
struct VectorGradientCall {
  struct Part {
    RowLayout layout;
    RowsOfReal<const Real> dz;
    RowsOfReal<const Real> x;       // null data: a bias alone
    const Real* moments = nullptr;  // of the rows of x
  };
  int64_t width = 0;
  std::vector<Part> parts;
  Shards shards;
  Real* gain = nullptr;  // [width]; null: none
  Real* bias = nullptr;  // [width]; null: none
  // Vector i has its rows i * from behind those of the first, and its sum i * to
  // behind.
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

  // Computes units until all are taken. Every thread calls it once, with a scratch of
  // its own; the gradients are there when all have returned.
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
