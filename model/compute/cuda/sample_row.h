// SPDX-License-Identifier: MIT
// Input and output of the sampler of a device: rows of logits, sampling parameters and
// state of slots, and tokens. All memory is the device's. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_window.h"
#include "model/compute/kernels.h"

namespace mnemon::device {

// Codes in place of a token: a logit is NaN or +infinity, or none is finite; the biases
// forbid all tokens.
inline constexpr int32_t kUnusableLogits = -2, kNothingAllowed = -3;

// Parameters as in model/sampling/sampling_params.h, after its Rounded.
struct SampleRow {
  float* logits = nullptr;  // [V]; penalties and biases change them
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  uint64_t seed = 0;
  int64_t index = 0;  // index of the token in its session
  Penalties penalties;
  // Receives the drawn token; belongs to this row only. Null if no penalty has an
  // effect.
  PenaltyWindow* window = nullptr;
  // Entries of one token are adjacent, in their order.
  const TokenBias* biases = nullptr;
  int32_t bias_count = 0;
};

// Sampling parameters and state of a slot.
struct SlotSampler {
  SampleRow row;  // without logits and index
  PenaltyWindow window;
  int32_t drawn = 0;  // the newest token, or a code
};

// A row whose token is drawn.
struct DrawRow {
  SlotSampler* sampler = nullptr;
  int64_t index = 0;       // index of the token in its session
  int32_t logits_row = 0;  // row of SampleCall::logits
};

struct SampleCall {
  const DrawRow* rows = nullptr;  // [count], of different slots
  int64_t count = 0;
  int32_t vocab = 0;          // below 2^24
  Rows logits;                // [.., V]
  int32_t* tokens = nullptr;  // [count]
};

// Size of a block's scratch in global memory.
inline constexpr int64_t SampleScratch(int32_t vocab) { return 2 * int64_t{vocab}; }

}  // namespace mnemon::device
