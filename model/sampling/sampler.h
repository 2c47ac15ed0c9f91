// SPDX-License-Identifier: MIT
// From logits to a token: a pure function of (logits, parameters, seed, index,
// history).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

struct LogitBias {
  int32_t token = 0;
  // Finite, or -infinity: the token never comes.
  float bias = 0;

  bool operator==(const LogitBias&) const = default;
};

struct SamplingParams {
  // 0 = greedy: the first of the largest logits, after penalties and bias; the cuts are
  // then without effect.
  double temperature = 1.0;
  // Keep the k largest logits; 0 = off; above V = all.
  int32_t top_k = 0;
  // Keep the smallest set of most likely tokens whose probability reaches p; in (0, 1].
  double top_p = 1.0;
  // Keep tokens at least this share as likely as the most likely one; in [0, 1].
  double min_p = 0.0;
  // Locally typical sampling (Meister et al., TACL 2023, section 4): keep the smallest
  // set of tokens, those whose information is closest to the entropy first, whose
  // probability reaches it; in (0, 1].
  double typical_p = 1.0;
  // Logits of tokens in the window: positive ones divided, negative ones multiplied; in
  // [0.001, 1000].
  double repetition_penalty = 1.0;
  // Subtracted per occurrence in the window, and once for any; in [-1000, 1000].
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  // The window: so many of the newest tokens of the history; 0 .. 65536.
  int32_t penalty_window = 64;
  // Added to logits; entries of one token add up. At most 1024.
  std::vector<LogitBias> logit_bias = {};
  uint64_t seed = 0;

  bool operator==(const SamplingParams&) const = default;
};

// INVALID_ARGUMENT whose field is the member's name, for values outside the ranges
// above, NaN included. Token ids of logit_bias are checked against 0 .. vocab-1.
absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab);

// Scratch that a caller keeps between calls to avoid allocation.
struct SamplerScratch {
  std::vector<double> logit;
  std::vector<double> weight;
  std::vector<int32_t> order;
  std::vector<int32_t> window;
};

// The token at absolute index `index`, which `history`, the tokens before it, precedes
// (what is older than the penalty window may be missing). In this order: penalties,
// bias, temperature, top-k, typical, top-p, min-p; each cut judges what the ones before
// it have kept. Then the inverse of the cumulative distribution in token-id order over
// the kept set at UniformAt(seed, index). Ties at a cut keep the smaller ids.
// Arithmetic in double. INTERNAL when a logit is NaN or none is finite (+infinity
// counts as NaN); INVALID_ARGUMENT, NO_TOKEN_ALLOWED, when the bias forbids them all.
// REQUIRES: ValidateSampling, and tokens of the history below V.
absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                               const SamplingParams& params, int64_t index,
                               SamplerScratch& scratch,
                               std::span<const int32_t> history = {});

}  // namespace mnemon
