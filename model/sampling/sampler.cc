// SPDX-License-Identifier: MIT
#include "model/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

absl::Status NotSampleable() {
  return MakeError(absl::StatusCode::kInternal, "the model returned unusable logits",
                   {.reason = "NON_FINITE_LOGITS"});
}

absl::Status NothingAllowed() {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   "logit_bias forbids every token the model could give",
                   {.reason = "NO_TOKEN_ALLOWED", .field = "logit_bias"});
}

LargestLogit Largest(std::span<const float> logits, const SamplerScratch& scratch) {
  return scratch.operations->largest(logits.data(),
                                     static_cast<int64_t>(logits.size()));
}

// So that no sum or product of finite numbers forbids a token, or all others.
float Saturated(float logit) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float bounded = logit < kMost ? logit : kMost;
  return bounded > -kMost ? bounded : -kMost;
}

void Penalize(const SamplingParams& params, std::span<const TokenCount> window,
              UnsetFloats& logits) {
  for (const auto [token, count] : window) {
    float& logit = logits[token];
    if (logit == -INFINITY) continue;
    // An array, so that no branch has to predict signs.
    const float choices[] = {logit * params.repetition_penalty,
                             logit / params.repetition_penalty};
    const float often = params.frequency_penalty * static_cast<float>(count);
    logit = Saturated(choices[logit > 0 ? 1 : 0] - often - params.presence_penalty);
  }
}

void AddBias(const SamplingParams& params, UnsetFloats& logits) {
  for (const auto [token, bias] : params.logit_bias) {
    float& logit = logits[token];
    if (logit == -INFINITY) continue;
    logit = bias == -INFINITY ? bias : Saturated(logit + bias);
  }
}

void Cut(const SamplingParams& params, Candidates& candidates) {
  if (params.top_k > 0) candidates.CutTopK(params.top_k);
  if (params.typical_p < 1) candidates.CutTypical(params.typical_p);
  if (params.top_p < 1) candidates.CutTopP(params.top_p);
  if (params.min_p > 0) candidates.CutMinP(params.min_p);
}

}  // namespace

absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                               const SamplingParams& params, int64_t index,
                               SamplerScratch& scratch,
                               std::span<const TokenCount> window) {
  LargestLogit best = Largest(logits, scratch);
  if (!best.usable) return NotSampleable();
  const bool penalizes = params.penalizes() && !window.empty();
  if (penalizes || !params.logit_bias.empty()) {
    scratch.logits.assign(logits.begin(), logits.end());
    if (penalizes) Penalize(params, window, scratch.logits);
    AddBias(params, scratch.logits);
    logits = scratch.logits;
    best = Largest(logits, scratch);
    if (!best.usable) return NothingAllowed();
  }
  if (params.temperature == 0) return static_cast<int32_t>(best.id);

  Candidates candidates(logits, {.most = best.logit, .temperature = params.temperature},
                        *scratch.operations, scratch.candidates);
  Cut(params, candidates);
  return candidates.Draw(RandomAt(params.seed, static_cast<uint64_t>(index)));
}

}  // namespace mnemon
