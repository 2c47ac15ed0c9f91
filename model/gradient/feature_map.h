// SPDX-License-Identifier: MIT
// What fast weights make of their queries, keys and gates, forward and backward, for
// float and, to check gradients, for double. Float has the same bits on every
// instruction set. Pure, for any thread.
#pragma once

#include <cstdint>

namespace mnemon {

// Sigmoid of x, in place; and, in place of dy, the gradient of x where y is its
// sigmoid.
template <class Real>
void SigmoidForward(int64_t width, Real* x);
template <class Real>
void SigmoidBackward(int64_t width, const Real* y, Real* dy);

// DPFP ("Linear Transformers Are Secretly Fast Weight Programmers", section 5.3) of a
// vector x [width]: phi(i, j) = x'_j x'_{(j - i) mod 2 width} / (sum + 1e-6), i = 1 ..
// nu, x' = relu([x, -x]). `scratch` has room for 6 width + 16 numbers. Returns the
// divisor.
template <class Real>
Real DpfpForward(int64_t width, int64_t nu, const Real* x, Real* phi, Real* scratch);
// dx from dphi, which is overwritten, phi and the divisor.
template <class Real>
void DpfpBackward(int64_t width, int64_t nu, const Real* x, const Real* phi,
                  Real divisor, Real* dphi, Real* dx, Real* scratch);

}  // namespace mnemon
