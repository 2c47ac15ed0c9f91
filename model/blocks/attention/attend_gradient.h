// SPDX-License-Identifier: MIT
// Attention of one head over one sequence, forward and backward ("Attention Is All You
// Need", equation 1; relative positions as in "Transformer-XL", section 3.3, with
// learned tables):
//   s(i,j) = c ((q_i + u).k_j + q_i.R[d] + S[d]) - slope |d|,   d = M + i - j
// capped if there is a cap,
//   o_i = sum_j drop(softmax_j(s_i))_j v_j
// Computed in blocks of queries: only two numbers per query are kept of the weights;
// the backward pass recomputes them.
#pragma once

#include <cstdint>
#include <optional>

#include "model/compute/dropout_mask.h"
#include "model/compute/gradient/product.h"
#include "model/compute/gradient/row_operations.h"

namespace mnemon {

// Keys that the queries of a sequence see: M of memory, then its own T.
struct AttentionShape {
  int64_t queries = 0;  // T
  int64_t memory = 0;   // M
  int64_t width = 0;    // K
  bool causal = true;
  int64_t reach = 0;  // if causal: keys before its own that a query sees

  int64_t keys() const { return memory + queries; }
  // Keys that query i sees.
  Part Seen(int64_t i) const {
    if (!causal) return {0, keys()};
    return {std::max<int64_t>(0, memory + i - reach), memory + i + 1};
  }
  // The largest distance between a query and a key that it sees.
  int64_t farthest() const { return std::min(reach, keys() - 1); }
};

// Tables of one head, for distances farthest .. 0 in this order.
template <class Real>
struct RelativeHead {
  PackedOperand<Real> by_distance;   // R^T [K, farthest + 1]
  AlignedVector<Real> rows;          // R [farthest + 1, K], rows in whole panels
  AlignedVector<Real> bias;          // S [farthest + 1]
  const Real* query_bias = nullptr;  // u [K]

  // Loads the rows of one head from R [rows, H, K] and S [rows, H]; S = u.R if `biases`
  // is null. Rows below 0 are 0.
  void Load(const Real* keys, const Real* biases, const Real* u, int64_t heads,
            int64_t head, int64_t width, Part rows);
};

// Dropout masks of one head and sequence.
struct AttentionDropout {
  const DropoutMask* mask = nullptr;  // null: none
  MaskPlace place;                    // of query 0
};

template <class Real>
struct AttentionScratch {
  PackedOperand<Real> keys, values;            // transposed [K, J]
  AlignedVector<Real> key_rows, value_rows;    // [J, K], rows in whole panels
  AlignedVector<Real> dkeys, dvalues;          // likewise
  AlignedVector<Real> queries, plain_queries;  // of a block, with u and without
  AlignedVector<Real> scores, kept, dscores;   // [queries of a block, J]
  AlignedVector<Real> relative;                // [queries of a block, distances]
  AlignedVector<Real> slopes;                  // [J], of a query's capped scores
  AlignedVector<Real> dbias;                   // [distances]
  AlignedVector<Real> out;                     // [queries of a block, K]
  std::vector<float> mask;                     // [J]
};

// A head's columns of rows of queries, keys and values.
template <class Real>
struct AttentionHead {
  AttentionShape shape;
  Real scale = 1;  // c
  Real slope = 0;
  Real cap = 0;                                  // of scores; 0: none
  const RelativeHead<Real>* relative = nullptr;  // null: none
  AttentionDropout dropout;
  RowsOfReal<const Real> query;                     // [T, K]
  RowsOfReal<const Real> memory_key, memory_value;  // [M, K]
  RowsOfReal<const Real> key, value;                // [T, K]
  RowsOfReal<Real> out;                             // o [T, K]
  SoftmaxMoments<Real>* moments = nullptr;          // [T]
};

template <class Real>
void AttentionForward(const AttentionHead<Real>& head, AttentionScratch<Real>& scratch);

// Destinations of the gradients; `drelative` is initially zero.
template <class Real>
struct AttentionGradients {
  RowsOfReal<const Real> dout;                  // [T, K]
  RowsOfReal<Real> dquery;                      // [T, K]
  RowsOfReal<Real> dmemory_key, dmemory_value;  // [M, K]; null data: not wanted
  RowsOfReal<Real> dkey, dvalue;                // [T, K]
  bool adds = false;  // keys and values: add to the gradients of other heads
  // With relative positions: the gradients of q + u, and of R and S by distance as in
  // RelativeHead; `drelative_bias` has a stride of its own.
  RowsOfReal<Real> dbiased_query;   // [T, K]
  RowsOfReal<Real> drelative;       // [farthest + 1, K]
  RowsOfReal<Real> drelative_bias;  // [farthest + 1, 1]
};

template <class Real>
void AttentionBackward(const AttentionHead<Real>& head,
                       const AttentionGradients<Real>& gradients,
                       AttentionScratch<Real>& scratch);

}  // namespace mnemon
