// SPDX-License-Identifier: MIT
// Fast weights of one head over one sequence, forward and backward ("Linear
// Transformers Are Secretly Fast Weight Programmers", Schlag et al. 2021), in chunks
// ("Parallelizing Linear Transformers with the Delta Rule over Sequence Length", Yang
// et al. 2024). Per token, write before read, phi being the feature map:
//   delta:  W += beta (v - W phi(k)) phi(k)^T        sum:  W += v phi(k)^T
//   o = W phi(q);  with z: z += phi(k), o = W phi(q) / (z.phi(q) + 1e-6)
// A chunk with entry state W0, with Kf, Qf the features and b = diag(beta):
//   (I + strict(b Kf Kf^T)) X = b (V - Kf W0^T)      sum:  X = V
//   O = Qf W0^T + lower(Qf Kf^T) X,  W1 = W0 + X^T Kf
// Only the entry states are kept; the backward pass recomputes the rest.
#pragma once

#include <cstdint>

#include "model/compute/feature_map.h"
#include "model/compute/gradient/product.h"
#include "model/compute/gradient/row_operations.h"

namespace mnemon {

// Tokens of a chunk, counted from the first of the batch.
inline constexpr int64_t kDeltaChunk = 32;

struct DeltaShape {
  int64_t time = 0;   // T
  int64_t width = 0;  // K
  FeatureMap map;
  bool delta = true;
  bool normalised = false;

  int64_t features() const { return map.features(width); }  // N
  int64_t chunks() const { return (time + kDeltaChunk - 1) / kDeltaChunk; }
  // Size of a state: W^T [N, K padded to whole panels], then z [N padded likewise].
  int64_t state_stride() const;
  int64_t state_size() const;
};

template <class Real>
struct DeltaScratch {
  AlignedVector<Real> keys, queries;                          // features [C, N]
  AlignedVector<Real> dkeys, dqueries;                        // their gradients
  AlignedVector<Real> divisors;                               // of features [2, C]
  AlignedVector<Real> square[4];                              // [C, C]
  AlignedVector<Real> writes, errors, dwrites, solved, outs;  // [C, K]
  AlignedVector<Real> sums;                                   // z.phi(q) [C]
  AlignedVector<Real> dstate;                                 // as a state
  AlignedVector<Real> roll;                                   // of features
  PackedOperand<Real> keys_across, writes_across;             // [N, C], [K, C]
  PackedOperand<Real> state_across;                           // [K, N]
};

// A head's columns of rows of queries, keys and values.
template <class Real>
struct DeltaHead {
  DeltaShape shape;
  RowsOfReal<const Real> query, key, value;  // [T, K]
  RowsOfReal<const Real> beta;               // [T, 1]; the delta rule's
  RowsOfReal<Real> out;                      // o [T, K]
  // Entry state of each chunk, of which the first is given, and the final state.
  Real* states = nullptr;  // [chunks + 1, state_size]
};

template <class Real>
void DeltaForward(const DeltaHead<Real>& head, DeltaScratch<Real>& scratch);

template <class Real>
struct DeltaGradients {
  RowsOfReal<const Real> dout;            // [T, K]
  RowsOfReal<Real> dquery, dkey, dvalue;  // [T, K]
  RowsOfReal<Real> dbeta;                 // [T, 1]
};

template <class Real>
void DeltaBackward(const DeltaHead<Real>& head, const DeltaGradients<Real>& gradients,
                   DeltaScratch<Real>& scratch);

}  // namespace mnemon
