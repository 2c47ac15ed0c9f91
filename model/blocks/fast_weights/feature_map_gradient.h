// SPDX-License-Identifier: MIT
// Feature maps of queries and keys, and sigmoids of gates, forward and backward, for
// float and, to check gradients, for double. Float has the same bits on every
// instruction set. Pure functions, for any thread.
#pragma once

#include <cstdint>

#include "model/compute/feature_map.h"

namespace mnemon {

// Sigmoid of x, in place; and, in place of dy, the gradient of x if y is its sigmoid.
template <class Real>
void SigmoidForward(int64_t width, Real* x);
template <class Real>
void SigmoidBackward(int64_t width, const Real* y, Real* dy);

// Features phi [N] of a vector x [width]. `scratch` has room for 6 width + 16 numbers.
// Returns the divisor.
template <class Real>
Real FeaturesForward(const FeatureMap& map, int64_t width, const Real* x, Real* phi,
                     Real* scratch);
// dx from dphi, which is overwritten, phi and the divisor.
template <class Real>
void FeaturesBackward(const FeatureMap& map, int64_t width, const Real* x,
                      const Real* phi, Real divisor, Real* dphi, Real* dx,
                      Real* scratch);

}  // namespace mnemon
