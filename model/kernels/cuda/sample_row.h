// SPDX-License-Identifier: MIT
// What the sampler of a device is given and gives back: rows of logits with the
// parameters of their requests, and tokens. All memory is the device's. C++17.
#pragma once

#include <cstdint>

#include "model/kernels/cuda/sample_window.h"

namespace mnemon::device {

// In place of a token: a logit is NaN or +infinity, or none is finite; the biases
// forbid all tokens.
inline constexpr int32_t kUnusableLogits = -1, kNothingAllowed = -2;

// Parameters are those of model/sampling/sampling_params.h, as its Rounded makes them.
struct SampleRow {
  float* logits = nullptr;  // [V]; penalties and biases change them
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  uint64_t seed = 0;
  int64_t index = 0;  // of the token in its session
  Penalties penalties;
  // Takes the token that is drawn, if there is one; this row's alone. Null where no
  // penalty has an effect.
  PenaltyWindow* window = nullptr;
  // Entries of one token are neighbours, in their order.
  const TokenBias* biases = nullptr;
  int32_t bias_count = 0;
};

struct SampleCall {
  const SampleRow* rows = nullptr;  // [count]
  int64_t count = 0;
  int32_t vocab = 0;          // below 2^24
  int32_t* tokens = nullptr;  // [count]
};

// Numbers of a block's scratch in global memory.
inline constexpr int64_t SampleScratch(int32_t vocab) { return 2 * int64_t{vocab}; }

}  // namespace mnemon::device
