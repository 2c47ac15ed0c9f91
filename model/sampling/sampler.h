// SPDX-License-Identifier: MIT
// From logits to a token: a pure function of (logits, parameters, seed, index).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

struct SamplingParams {
  // 0 = greedy: the first of the largest logits; everything below is then ignored.
  double temperature = 1.0;
  // Keep the k largest logits; 0 = off; above V = all.
  int32_t top_k = 0;
  // Keep the smallest set of most likely tokens whose probability reaches p; in (0, 1].
  double top_p = 1.0;
  uint64_t seed = 0;

  bool operator==(const SamplingParams&) const = default;
};

// INVALID_ARGUMENT whose field is "temperature", "top_k" or "top_p": temperature finite
// and >= 0, top_k >= 0, 0 < top_p <= 1.
absl::Status ValidateSampling(const SamplingParams& params);

// Scratch that a caller keeps between calls to avoid allocation.
struct SamplerScratch {
  std::vector<double> weight;
  std::vector<int32_t> order;
};

// The token at absolute index `index`: temperature, top-k, top-p, then the inverse of
// the cumulative distribution in token-id order over the kept set at UniformAt(seed,
// index). Ties at a cut keep the smaller ids. Arithmetic in double. INTERNAL when a
// logit is NaN or none is finite (+infinity counts as NaN).
absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                               const SamplingParams& params, int64_t index,
                               SamplerScratch& scratch);

}  // namespace mnemon
