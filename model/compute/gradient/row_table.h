// SPDX-License-Identifier: MIT
// The functions of row_operations.h for one instruction set.
#pragma once

#include "model/compute/gradient/row_operations.h"

namespace mnemon {

template <class Real>
struct RowTable {
  void (*norm_forward)(const NormPass<Real>& pass, const RowsOfReal<Real>& z);
  void (*norm_backward)(const NormPass<Real>& pass, const RowsOfReal<const Real>& dz,
                        const RowsOfReal<const Real>& from, const RowsOfReal<Real>& dx);
  void (*add_column_sums)(const ColumnSums<Real>& sums, const RowPieces& rows,
                          const Part& columns);
  void (*hidden_forward)(Hidden kind, int64_t width, const Real* a, const Real* factor,
                         Real* h);
  void (*hidden_backward)(Hidden kind, int64_t width, const Real* dh, Real* a,
                          Real* factor);
  void (*relu_backward)(int64_t width, const Real* h, Real* dh);
  void (*add_scaled)(int64_t width, Real scale, const Real* a, const Real* b, Real* to);
  void (*multiply_by)(int64_t width, const Real* from, const float* factors, Real* to);
  double (*cross_entropy)(int64_t width, int64_t target, Real* logits, bool* best);
  Real (*dot_product)(int64_t width, const Real* a, const Real* b);
  SoftmaxMoments<Real> (*softmax)(const SoftmaxRow<Real>& row);
  void (*softmax_again)(const SoftmaxRow<Real>& row,
                        const SoftmaxMoments<Real>& moments);
  void (*softmax_backward)(int64_t keys, const Real* weights, Real delta, Real scale,
                           const Real* slopes, Real* dweights);
};

}  // namespace mnemon
