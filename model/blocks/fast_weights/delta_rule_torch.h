// SPDX-License-Identifier: MIT
// Fast weights: feature maps and the update of W, after "Linear Transformers
// Are Secretly Fast Weight Programmers" (Schlag et al. 2021), sections 3.2, 4.2
// and 5.3, computed in chunks (WY form, UT transform) after "Parallelizing Linear
// Transformers with the Delta Rule over Sequence Length" (Yang et al. 2024).
//
// The recurrence, per row (a head of a sequence), write before read:
//   delta:  W_i = W_{i-1} + beta_i (v_i - W_{i-1} k_i) k_i^T
//   sum:    W_i = W_{i-1} + v_i k_i^T
//   y_i = W_i q_i;  with z: z_i = z_{i-1} + k_i,  y_i = W_i q_i / (z_i.q_i + 1e-6)
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mnemon {

// p(i, j) = x'_j x'_{(j-i) mod 2K}, i = 1..nu, x' = relu([x, -x]).
// x [..., K] -> [..., 2 nu K], blocks by i.
at::Tensor DpfpProducts(const at::Tensor& x, int64_t nu);
// phi = p / (sum p + 1e-6).
at::Tensor Dpfp(const at::Tensor& x, int64_t nu);
// phi = p / (sum p + 1e-6), p_j = x_j + 1 where x_j > 0, else exp(x_j): ELU + 1.
// x [..., K] -> [..., K].
at::Tensor EluFeatures(const at::Tensor& x);

struct FastWeightInput {
  at::Tensor q;     // [R, T, N], features
  at::Tensor k;     // [R, T, N], features
  at::Tensor v;     // [R, T, K]
  at::Tensor beta;  // [R, T, 1]; undefined: the sum rule
};

struct FastWeightState {
  at::Tensor w;  // [R, K, N]
  at::Tensor z;  // [R, N]; undefined: not normalised
};

// y [R, T, K]; `state` becomes the state after T tokens. Differentiable. Computed in
// the common type of the tensors, even if autocast is on.
at::Tensor RunFastWeights(const FastWeightInput& input, FastWeightState& state);

}  // namespace mnemon
