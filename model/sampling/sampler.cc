// SPDX-License-Identifier: MIT
#include "model/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/float_mode.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

LargestLogit Largest(std::span<const float> logits,
                     const SamplingOperations& operations) {
  return operations.largest(logits.data(), static_cast<int64_t>(logits.size()));
}

// Clamps, so that no sum or product of finite numbers forbids a token, or all others.
float Saturated(float logit) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float bounded = logit < kMost ? logit : kMost;
  return bounded > -kMost ? bounded : -kMost;
}

float Penalized(float logit, int32_t count, const SamplingParams& params) {
  if (logit == -INFINITY) return logit;
  // An array, so that no branch must predict signs.
  const float choices[] = {logit * params.repetition_penalty,
                           logit / params.repetition_penalty};
  const float often = params.frequency_penalty * static_cast<float>(count);
  return Saturated(choices[logit > 0 ? 1 : 0] - often - params.presence_penalty);
}

float Biased(float logit, float bias) {
  if (logit == -INFINITY || bias == -INFINITY) return -INFINITY;
  return Saturated(logit + bias);
}

// Applies penalties and biases to logits; the destructor restores them.
class Adjustment {
 public:
  // `replaced` is scratch. All arguments must outlive it.
  Adjustment(std::span<float> logits, std::span<const TokenCount> window,
             const SamplingParams& params, UnsetFloats& replaced)
      : logits_(logits),
        window_(window),
        biases_(params.logit_bias),
        few_(window.size() + biases_.size() <= logits.size() / kFewPart),
        replaced_(replaced) {
    replaced.resize(std::max(replaced.size(), logits.size()));
    if (!few_) std::copy(logits.begin(), logits.end(), replaced.begin());
    float* old = replaced.data();
    for (const auto [token, count] : window) {
      if (few_) *old++ = logits[token];
      logits[token] = Penalized(logits[token], count, params);
    }
    for (const auto [token, bias] : biases_) {
      if (few_) *old++ = logits[token];
      logits[token] = Biased(logits[token], bias);
    }
  }
  ~Adjustment() {
    if (!few_) {
      std::copy_n(replaced_.begin(), logits_.size(), logits_.begin());
      return;
    }
    // Backwards: the first change of a token replaced its original logit.
    const float* old = replaced_.data() + window_.size() + biases_.size();
    for (size_t i = biases_.size(); i-- > 0;) logits_[biases_[i].token] = *--old;
    for (size_t i = window_.size(); i-- > 0;) logits_[window_[i].token] = *--old;
  }
  Adjustment(const Adjustment&) = delete;
  Adjustment& operator=(const Adjustment&) = delete;

  // The largest of the current logits; `best` was the largest before.
  LargestLogit Largest(LargestLogit best, const SamplingOperations& operations) const {
    const float logit_now = logits_[static_cast<size_t>(best.id)];
    // If it was lowered, any of the others may be the largest.
    if (!few_ || logit_now < best.logit) return mnemon::Largest(logits_, operations);
    best.logit = logit_now;
    const auto look_at = [&](int32_t token) {
      const float logit = logits_[token];
      if (logit > best.logit || (logit == best.logit && token < best.id))
        best = {.logit = logit, .id = token, .usable = true};
    };
    for (const TokenCount& entry : window_) look_at(entry.token);
    for (const LogitBias& entry : biases_) look_at(entry.token);
    return best;
  }

 private:
  // Above this part of all logits, restoring them one by one is no faster than
  // restoring all.
  static constexpr size_t kFewPart = 8;

  const std::span<float> logits_;
  const std::span<const TokenCount> window_;
  const std::span<const LogitBias> biases_;
  const bool few_;
  // Logits before the changes, in the order of these; or all logits.
  const UnsetFloats& replaced_;
};

void Cut(const SamplingParams& params, Candidates& candidates) {
  if (params.top_k > 0) candidates.CutTopK(params.top_k);
  if (params.typical_p < 1) candidates.CutTypical(params.typical_p);
  if (params.top_p < 1) candidates.CutTopP(params.top_p);
  if (params.min_p > 0) candidates.CutMinP(params.min_p);
}

// REQUIRES: best.usable.
int32_t Choose(std::span<const float> logits, const LargestLogit& best,
               const SamplingParams& params, int64_t index, SamplerScratch& scratch) {
  if (params.temperature == 0) return static_cast<int32_t>(best.id);
  Candidates candidates(logits, {.most = best.logit, .temperature = params.temperature},
                        *scratch.operations, scratch.candidates);
  Cut(params, candidates);
  return candidates.Draw(RandomAt(params.seed, static_cast<uint64_t>(index)));
}

}  // namespace

void SamplerScratch::Reserve(int64_t vocab) {
  replaced.reserve(static_cast<size_t>(vocab));
  candidates.Reserve(vocab);
}

absl::Status UnusableLogits() {
  return MakeError(absl::StatusCode::kInternal, "the model returned unusable logits",
                   {.reason = "NON_FINITE_LOGITS"});
}

absl::Status NoTokenAllowed() {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   "logit_bias forbids every token the model could give",
                   {.reason = "NO_TOKEN_ALLOWED", .field = "logit_bias"});
}

absl::StatusOr<int32_t> Sample(std::span<float> logits, const SamplingParams& params,
                               int64_t index, SamplerScratch& scratch,
                               std::span<const TokenCount> window) {
  const IeeeFloatMode mode;
  const LargestLogit best = Largest(logits, *scratch.operations);
  if (!best.usable) return UnusableLogits();
  if (!params.penalizes()) window = {};
  if (window.empty() && params.logit_bias.empty())
    return Choose(logits, best, params, index, scratch);
  const Adjustment adjustment(logits, window, params, scratch.replaced);
  const LargestLogit now = adjustment.Largest(best, *scratch.operations);
  if (!now.usable) return NoTokenAllowed();
  return Choose(logits, now, params, index, scratch);
}

}  // namespace mnemon
