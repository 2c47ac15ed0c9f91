// SPDX-License-Identifier: MIT
// Log-probabilities of tokens under the unmodified distribution of the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "model/sampling/sampler.h"

namespace mnemon {

struct TokenCandidate {
  int32_t token = 0;
  float logprob = 0;  // natural logarithm; -infinity if the model forbids it

  bool operator==(const TokenCandidate&) const = default;
};

struct TokenLogprobs {
  int32_t token = 0;
  float logprob = 0;
  std::vector<TokenCandidate> candidates;

  bool operator==(const TokenLogprobs&) const = default;
};

// Candidates to report beside the token itself.
struct CandidateChoice {
  int32_t most_likely = 0;   // number, smaller ids first among equals; above V: all
  std::vector<int32_t> ids;  // also these, in order

  bool operator==(const CandidateChoice&) const = default;
};

// log softmax(logits) at `token` and at the candidates, the most likely first. In
// float32 (docs/numerics.md). INTERNAL, NON_FINITE_LOGITS, as in Sample. REQUIRES: all
// ids are below V.
absl::StatusOr<TokenLogprobs> ScoreToken(std::span<const float> logits, int32_t token,
                                         const CandidateChoice& choice,
                                         SamplerScratch& scratch);

}  // namespace mnemon
