// SPDX-License-Identifier: MIT
// Settings of fast weights, and the tensors and state that follow from them.
//
//   q, k = phi(W_q z), phi(W_k z),  v = W_v z,  beta = sigmoid(W_g z), per head
//   delta:  W_i = W_{i-1} + beta_i (v_i - W_{i-1} k_i) k_i^T
//   sum:    W_i = W_{i-1} + v_i k_i^T
//   y_i = W_i q_i;  normalised: z_i = z_{i-1} + k_i,  y_i = W_i q_i / (z_i.q_i + 1e-6)
//   out = W_o y + b_o
// "Linear Transformers Are Secretly Fast Weight Programmers" (Schlag, Irie,
// Schmidhuber, 2021), sections 3.2 (sum rule, z), 4.2 (delta rule) and 5.3 (DPFP).
// phi of x [K], both divided by their sum + 1e-6:
//   DPFP  p(i,j) = x'_j x'_{(j-i) mod 2K}, i = 1..nu, x' = relu([x, -x]); N = 2 nu K
//   ELU+1 p_j = x_j + 1 where x_j > 0, else exp(x_j); N = K
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/blocks/tensor_list.h"
#include "model/compute/feature_map.h"
#include "model/state/state.h"

namespace mnemon {

enum class UpdateRule { kDelta, kSum };

struct FastWeights {
  int64_t heads = 1;  // H
  int64_t width = 1;  // K, of a head's query, key and value
  UpdateRule rule = UpdateRule::kDelta;
  FeatureMap map = {};      // phi; its nu is 1 with ELU
  bool normalised = false;  // keeps z

  int64_t features() const { return map.features(width); }  // N, of a head
  bool operator==(const FastWeights&) const = default;
};

// Errors in the settings, in words; empty if valid.
std::vector<std::string> FaultsOf(const FastWeights& fast);

// `base` is the name of the block, such as "layers.0.attn"; D = `width`.
void AddTensors(const FastWeights& fast, const std::string& base, int64_t width,
                TensorList& list);

// Entries of the step form: W, transposed so that a feature's row is a vector, [H, N,
// K], and z [H, N].
void AddState(const FastWeights& fast, const std::string& owner, StateSpec& spec);
// Entries of the carry of the sequence form: W [H, K, N] and z.
void AddCarry(const FastWeights& fast, const std::string& owner, StateSpec& spec);

}  // namespace mnemon
