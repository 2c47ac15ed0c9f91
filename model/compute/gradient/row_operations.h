// SPDX-License-Identifier: MIT
// Row operations of training besides products, forward and backward, for float and, to
// check gradients, for double. A row's numbers depend on that row alone, sums over rows
// run in order; float has the same bits on every instruction set. Pure functions, for
// any thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "model/compute/activation.h"
#include "model/compute/gradient/weight_gradient.h"

namespace mnemon {

// Rows of `width` numbers, `stride` apart.
template <class Real>
struct RowsOfReal {
  Real* data = nullptr;
  int64_t stride = 0;

  Real* row(int64_t r) const { return data + r * stride; }
  // Rows from `r` on and columns from `c` on.
  RowsOfReal from(int64_t r, int64_t c = 0) const { return {row(r) + c, stride}; }
  operator RowsOfReal<const Real>() const requires(!std::is_const_v<Real>) {
    return {data, stride};
  }
};

// A norm, see model/compute/norm.h: z = (x - mean) rstd (gain + more) + bias.
template <class Real>
struct NormPass {
  int64_t rows = 0, width = 0;
  RowsOfReal<const Real> x;
  bool centred = true;  // false: the mean is taken as 0
  Real eps = Real{1e-5};
  const Real* gain = nullptr;
  Real more = 0;
  const Real* bias = nullptr;  // null: none
  // For the backward pass: mean and rstd [rows, 2], and (x - mean) rstd [rows, width];
  // null if not needed.
  Real* moments = nullptr;
  RowsOfReal<Real> standard;
};
template <class Real>
void NormForward(const NormPass<Real>& pass, RowsOfReal<Real> z);
// dx = [from +] the gradient of x for dz. `from` with null data: none.
template <class Real>
void NormBackward(const NormPass<Real>& pass, RowsOfReal<const Real> dz,
                  RowsOfReal<const Real> from, RowsOfReal<Real> dx);

// Columns begin .. end - 1 of sums over `rows`: to[c] += sum of dz (x - mean) rstd, and
// of dz. Either may be null. For biases only, x is not read.
template <class Real>
struct ColumnSums {
  RowsOfReal<const Real> dz;
  RowsOfReal<const Real> x;
  const Real* moments = nullptr;
  Real* gain = nullptr;
  Real* bias = nullptr;
};
template <class Real>
void AddColumnSums(const ColumnSums<Real>& sums, const RowPieces& rows, Part columns);

// Activations between a pre-activation a and h = act(a) [* factor].
struct Hidden {
  Activation act = Activation::kRelu;
  bool gated = false;

  // Whether its slope follows from h.
  bool relu_alone() const { return act == Activation::kRelu && !gated; }
};
// h of one row, from a and, if gated, its factor; `h` may be `a`.
template <class Real>
void HiddenForward(Hidden kind, int64_t width, const Real* a, const Real* factor,
                   Real* h);
// da and dfactor, in place of a and factor, from dh.
template <class Real>
void HiddenBackward(Hidden kind, int64_t width, const Real* dh, Real* a, Real* factor);
// If h is that of relu_alone(): dh becomes da = dh if h > 0, else 0.
template <class Real>
void ReluBackward(int64_t width, const Real* h, Real* dh);

// to[i] = scale a[i] + b[i]; null b: nothing is added. In place is allowed.
template <class Real>
void AddScaled(int64_t width, Real scale, const Real* a, const Real* b, Real* to);
// to[i] = from[i] * factors[i], factors in float.
template <class Real>
void MultiplyBy(int64_t width, const Real* from, const float* factors, Real* to);

// Logits of one row become their gradient, softmax minus the target; returns the
// cross-entropy in nats. `best`: whether the target's logit is the largest.
template <class Real>
double CrossEntropy(int64_t width, int64_t target, Real* logits, bool* best);

template <class Real>
Real DotProduct(int64_t width, const Real* a, const Real* b);

// Turns scores of one query into attention weights, and returns what is kept of them.
template <class Real>
struct SoftmaxRow {
  int64_t first = 0, end = 0;      // seen keys
  Real scale = 1;                  // of scores and position terms
  const Real* relative = nullptr;  // [keys]: added to a score; null: none
  Real slope = 0;                  // ALiBi: slope times distance is subtracted
  Real cap = 0;                    // score becomes cap tanh(score / cap); 0: none
  int64_t query = 0;               // the key at the query's own position
  Real* scores = nullptr;          // [keys], whole panels; 0 if not seen
  int64_t keys = 0;
  Real* slopes = nullptr;  // [keys], set: those of capped scores; null: not needed
};
template <class Real>
struct SoftmaxMoments {
  Real most = 0;     // the largest scaled score
  Real inverse = 0;  // 1 / sum of exp(score - most)
};
template <class Real>
SoftmaxMoments<Real> Softmax(const SoftmaxRow<Real>& row);
// Recomputes the same weights from known moments.
template <class Real>
void SoftmaxAgain(const SoftmaxRow<Real>& row, const SoftmaxMoments<Real>& moments);

// dscores[j] = weights[j] (dweights[j] - delta) scale slopes[j], in place of dweights.
// Null slopes: all are 1.
template <class Real>
void SoftmaxBackward(int64_t keys, const Real* weights, Real delta, Real scale,
                     const Real* slopes, Real* dweights);

}  // namespace mnemon
