// SPDX-License-Identifier: MIT
#include "model/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

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

// Lanes that the compiler turns into vectors.
constexpr size_t kLanes = 16;

// The largest logit; clears `usable` when one is NaN or +inf.
template <class Number>
Number Largest(std::span<const Number> logits, bool& usable) {
  std::array<Number, kLanes> most;
  most.fill(-INFINITY);
  std::array<uint8_t, kLanes> below = {};
  below.fill(1);
  const auto take = [&](size_t lane, Number logit) {
    most[lane] = logit > most[lane] ? logit : most[lane];
    below[lane] &= logit < INFINITY;
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) take(0, logits[i]);
  for (const uint8_t lane : below) usable = usable && lane;
  return *std::max_element(most.begin(), most.end());
}

// The first of the largest logits; -1 when a logit is NaN or +inf, or all are -inf.
template <class Number>
int32_t ArgMax(std::span<const Number> logits) {
  constexpr size_t kBlock = 1024;
  Number most = -INFINITY;
  size_t best = 0;  // where the block of the largest begins
  bool usable = true;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t size = std::min(kBlock, logits.size() - begin);
    const Number top = Largest(logits.subspan(begin, size), usable);
    if (!(top > most)) continue;
    most = top;
    best = begin;
  }
  if (!usable || most == -INFINITY) return -1;
  while (logits[best] != most) ++best;
  return static_cast<int32_t>(best);
}

void Penalize(const SamplingParams& params, std::span<const TokenCount> window,
              std::vector<double>& logits) {
  for (const auto [token, count] : window) {
    double& logit = logits[token];
    logit = logit > 0 ? logit / params.repetition_penalty
                      : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * count;
    logit -= params.presence_penalty;
  }
}

void Cut(const SamplingParams& params, Candidates& candidates) {
  if (params.top_k > 0) candidates.CutTopK(params.top_k);
  if (params.typical_p < 1) candidates.CutTypical(params.typical_p);
  if (params.top_p < 1) candidates.CutTopP(params.top_p);
  if (params.min_p > 0) candidates.CutMinP(params.min_p);
}

// The inverse of the cumulative distribution at `uniform`.
int32_t Draw(Candidates& candidates, double uniform) {
  const double target = uniform * candidates.Weigh();
  double sum = 0;
  int32_t last = 0;
  for (const int32_t id : candidates.ids()) {
    const double weight = candidates.weight(id);
    if (weight == 0) continue;
    last = id;
    sum += weight;
    if (sum > target) break;
  }
  return last;
}

}  // namespace

absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                               const SamplingParams& params, int64_t index,
                               SamplerScratch& scratch,
                               std::span<const TokenCount> window) {
  int32_t best = ArgMax(logits);
  if (best < 0) return NotSampleable();
  const bool penalizes = params.penalizes() && !window.empty();
  const bool adjusts = penalizes || !params.logit_bias.empty();
  if (params.temperature == 0 && !adjusts) return best;

  std::vector<double>& logit = scratch.logit;
  logit.assign(logits.begin(), logits.end());
  if (adjusts) {
    if (penalizes) Penalize(params, window, logit);
    for (const LogitBias& entry : params.logit_bias) logit[entry.token] += entry.bias;
    best = ArgMax(std::span<const double>(logit));
    if (best < 0) return NothingAllowed();
    if (params.temperature == 0) return best;
  }

  Candidates candidates(logit, logit[best], params.temperature, scratch.candidates);
  Cut(params, candidates);
  return Draw(candidates, UniformAt(params.seed, static_cast<uint64_t>(index)));
}

}  // namespace mnemon
