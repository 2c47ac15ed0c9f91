// SPDX-License-Identifier: MIT
// The sampler, from logits to a token: a pure function of (logits, parameters, seed,
// index, counts of the penalty window), the same on every machine (docs/numerics.md,
// Sampling).
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "base/memory/aligned_floats.h"
#include "model/sampling/candidates.h"
#include "model/sampling/penalty_counts.h"
#include "model/sampling/sampling_operations.h"
#include "model/sampling/sampling_params.h"

namespace mnemon {

// State of a sampling thread between calls: its instruction set, and vectors to avoid
// allocation.
struct SamplerScratch {
  const SamplingOperations* operations = &SamplingOperationsOf();
  UnsetFloats replaced;  // original logits that penalties and bias changed
  CandidateScratch candidates;

  // Reserves memory for Sample and ScoreToken with up to `vocab` logits.
  void Reserve(int64_t vocab);
};

// INTERNAL, NON_FINITE_LOGITS.
absl::Status UnusableLogits();
// INVALID_ARGUMENT, NO_TOKEN_ALLOWED.
absl::Status NoTokenAllowed();

// The token at absolute index `index` of a session. `window`: number of occurrences of
// each token in the penalty window before it (PenaltyCounts), each token once. Applies,
// in this order: penalties, bias, temperature, top-k, typical, top-p, min-p; each cut
// works on the tokens kept by those before it. Then inverts the cumulative distribution
// over the kept tokens in the order of ids at RandomAt(seed, index). Ties at a cut keep
// the smaller ids. `logits` are changed temporarily and restored on return. INTERNAL if
// a logit is NaN or none is finite (+infinity counts as NaN); INVALID_ARGUMENT,
// NO_TOKEN_ALLOWED, if the bias forbids all tokens. REQUIRES: Rounded parameters,
// tokens of the window below V, V < 2^24.
absl::StatusOr<int32_t> Sample(std::span<float> logits, const SamplingParams& params,
                               int64_t index, SamplerScratch& scratch,
                               std::span<const TokenCount> window = {});

}  // namespace mnemon
