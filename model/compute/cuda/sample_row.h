// SPDX-License-Identifier: MIT
// What the sampler of a device is given and gives back: rows of logits, what the draws
// of their slots go by, and tokens. All memory is the device's. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_window.h"
#include "model/compute/kernels.h"

namespace mnemon::device {

// In place of a token: a logit is NaN or +infinity, or none is finite; the biases
// forbid all tokens.
inline constexpr int32_t kUnusableLogits = -2, kNothingAllowed = -3;

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

// What the draws of a slot go by.
struct SlotSampler {
  SampleRow row;  // without logits and index
  PenaltyWindow window;
  int32_t drawn = 0;  // the newest token, or what is in place of it
};

// A row whose token is drawn.
struct DrawRow {
  SlotSampler* sampler = nullptr;
  int64_t index = 0;       // of the token in its session
  int32_t logits_row = 0;  // of SampleCall::logits
};

struct SampleCall {
  const DrawRow* rows = nullptr;  // [count], of different slots
  int64_t count = 0;
  int32_t vocab = 0;          // below 2^24
  Rows logits;                // [.., V]
  int32_t* tokens = nullptr;  // [count]
};

// Numbers of a block's scratch in global memory.
inline constexpr int64_t SampleScratch(int32_t vocab) { return 2 * int64_t{vocab}; }

}  // namespace mnemon::device
