// SPDX-License-Identifier: MIT
// Sampling parameters, and the check of those that a client sends.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

struct LogitBias {
  int32_t token = 0;
  // Finite, or -infinity to forbid the token.
  float bias = 0;

  bool operator==(const LogitBias&) const = default;
};

// Real: double, as sent by a client, or float, as used in the computation.
template <class Real>
struct SamplingValues {
  // 0 = greedy: the first of the largest logits, after penalties and bias; the cuts
  // then have no effect.
  Real temperature = 1;
  // Keep the k largest logits; 0 = off; above V = all.
  int32_t top_k = 0;
  // Keep the smallest set of most likely tokens whose probability reaches p; in (0, 1].
  Real top_p = 1;
  // Keep tokens at least this share as likely as the most likely one; in [0, 1].
  Real min_p = 0;
  // Locally typical sampling (Meister et al., TACL 2023, section 4): keep the smallest
  // set of tokens, those whose information is closest to the entropy first, whose
  // probability reaches it; in (0, 1].
  Real typical_p = 1;
  // Divides positive and multiplies negative logits of tokens in the window; in [0.001,
  // 1000].
  Real repetition_penalty = 1;
  // Subtracted per occurrence in the window, and once for any; in [-1000, 1000].
  Real frequency_penalty = 0;
  Real presence_penalty = 0;
  // The window: this many of the newest tokens of the history; 0 .. 65536.
  int32_t penalty_window_tokens = 64;
  // Added to logits; entries of one token add up. At most 1024.
  std::vector<LogitBias> logit_bias;
  uint64_t seed = 0;

  // Whether any penalty has an effect on the tokens of the window.
  bool penalizes() const {
    return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0;
  }

  bool operator==(const SamplingValues&) const = default;
};

using RequestedSampling = SamplingValues<double>;
using SamplingParams = SamplingValues<float>;

// INVALID_ARGUMENT, with the member's name as field, for values outside the ranges
// above, NaN included, and for a temperature that float32 cannot represent. Token ids
// of logit_bias must be in 0 .. vocab-1.
absl::Status ValidateSampling(const RequestedSampling& requested, int64_t vocab);

// Rounds each value to the nearest float32. A positive value may become 0: such a
// temperature is greedy, such a top_p or typical_p keeps one token. REQUIRES:
// ValidateSampling.
SamplingParams Rounded(const RequestedSampling& requested);

}  // namespace mnemon
