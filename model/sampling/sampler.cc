// SPDX-License-Identifier: MIT
#include "model/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/sampling/cuts.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

// Products and sums with logits stay far from the limits of a double.
constexpr double kMostPenalty = 1000;
constexpr double kLeastRepetition = 0.001;
constexpr int32_t kMostWindow = 65536;
constexpr size_t kMostBiases = 1024;

absl::Status NotSampleable() {
  return MakeError(absl::StatusCode::kInternal, "the model returned unusable logits",
                   {.reason = "NON_FINITE_LOGITS"});
}

absl::Status NothingAllowed() {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   "logit_bias forbids every token the model could give",
                   {.reason = "NO_TOKEN_ALLOWED", .field = "logit_bias"});
}

// NaN is in no range.
absl::Status InRange(const char* field, double value, double least, double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidField(
      field, StrCat(field, " must be from ", least, " to ", most, ", got ", value));
}

absl::Status InUnit(const char* field, double value) {
  if (value > 0 && value <= 1) return absl::OkStatus();
  return InvalidField(field,
                      StrCat(field, " must be above 0 and at most 1, got ", value));
}

absl::Status CheckBias(const std::vector<LogitBias>& biases, int64_t vocab) {
  if (biases.size() > kMostBiases) {
    return InvalidField(
        "logit_bias",
        StrCat("at most ", kMostBiases, " entries of logit_bias, got ", biases.size()));
  }
  for (size_t i = 0; i < biases.size(); ++i) {
    const auto [token, bias] = biases[i];
    const std::string field = StrCat("logit_bias[", i, "]");
    if (token < 0 || token >= vocab) {
      return InvalidField(
          field, StrCat("token ", token, " of ", field, " is not in 0..", vocab - 1));
    }
    if (std::isnan(bias) || bias == INFINITY) {
      return InvalidField(
          field, StrCat("the bias of ", field, " must be finite or -inf, got ", bias));
    }
  }
  return absl::OkStatus();
}

// The first of the largest logits; -1 when a logit is NaN or +inf, or all are -inf.
template <class Number>
int32_t ArgMax(std::span<const Number> logits) {
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) return -1;
    if (logits[i] == -INFINITY) continue;
    if (best < 0 || logits[i] > logits[best]) best = static_cast<int32_t>(i);
  }
  return best;
}

bool Penalises(const SamplingParams& params) {
  return params.repetition_penalty != 1 || params.frequency_penalty != 0 ||
         params.presence_penalty != 0;
}

void Penalise(const SamplingParams& params, std::span<const int32_t> history,
              SamplerScratch& scratch) {
  const size_t size = std::min<size_t>(history.size(), params.penalty_window);
  std::vector<int32_t>& window = scratch.window;
  window.assign(history.end() - static_cast<ptrdiff_t>(size), history.end());
  std::sort(window.begin(), window.end());
  for (auto at = window.begin(); at != window.end();) {
    const auto next = std::upper_bound(at, window.end(), *at);
    double& logit = scratch.logit[*at];
    logit = logit > 0 ? logit / params.repetition_penalty
                      : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<double>(next - at);
    logit -= params.presence_penalty;
    at = next;
  }
}

bool Cuts(const SamplingParams& params) {
  return params.top_k > 0 || params.typical_p < 1 || params.top_p < 1 ||
         params.min_p > 0;
}

// Sets the weights of what is not kept to 0.
void Cut(const SamplingParams& params, SamplerScratch& scratch) {
  const Distribution all{scratch.logit, scratch.weight};
  std::vector<int32_t>& kept = scratch.order;
  kept.resize(scratch.weight.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (params.top_k > 0) CutTopK(all, params.top_k, kept);
  if (params.typical_p < 1) CutTypical(all, params.typical_p, kept);
  if (params.top_p < 1) CutTopP(all, params.top_p, kept);
  if (params.min_p > 0) CutMinP(all, params.min_p, kept);
  std::sort(kept.begin(), kept.end());
  auto next = kept.begin();
  for (size_t i = 0; i < scratch.weight.size(); ++i) {
    if (next != kept.end() && *next == static_cast<int32_t>(i)) {
      ++next;
    } else {
      scratch.weight[i] = 0;
    }
  }
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab) {
  if (!std::isfinite(params.temperature) || params.temperature < 0) {
    return InvalidField("temperature", StrCat("temperature must be finite and >= 0",
                                              ", got ", params.temperature));
  }
  if (params.top_k < 0) {
    return InvalidField("top_k",
                        StrCat("top_k must be >= 0 (0 = off), got ", params.top_k));
  }
  MNEMON_RETURN_IF_ERROR(InUnit("top_p", params.top_p));
  MNEMON_RETURN_IF_ERROR(InRange("min_p", params.min_p, 0, 1));
  MNEMON_RETURN_IF_ERROR(InUnit("typical_p", params.typical_p));
  MNEMON_RETURN_IF_ERROR(InRange("repetition_penalty", params.repetition_penalty,
                                 kLeastRepetition, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("frequency_penalty", params.frequency_penalty,
                                 -kMostPenalty, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(InRange("presence_penalty", params.presence_penalty,
                                 -kMostPenalty, kMostPenalty));
  MNEMON_RETURN_IF_ERROR(
      InRange("penalty_window", params.penalty_window, 0, kMostWindow));
  return CheckBias(params.logit_bias, vocab);
}

absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                               const SamplingParams& params, int64_t index,
                               SamplerScratch& scratch,
                               std::span<const int32_t> history) {
  int32_t best = ArgMax(logits);
  if (best < 0) return NotSampleable();
  const bool adjusts = Penalises(params) || !params.logit_bias.empty();
  if (params.temperature == 0 && !adjusts) return best;

  std::vector<double>& logit = scratch.logit;
  logit.assign(logits.begin(), logits.end());
  if (adjusts) {
    if (Penalises(params)) Penalise(params, history, scratch);
    for (const LogitBias& entry : params.logit_bias) logit[entry.token] += entry.bias;
    best = ArgMax(std::span<const double>(logit));
    if (best < 0) return NothingAllowed();
    if (params.temperature == 0) return best;
  }

  const size_t vocab = logit.size();
  std::vector<double>& weight = scratch.weight;
  weight.resize(vocab);
  for (size_t i = 0; i < vocab; ++i) {
    // Subtracting first keeps tiny temperatures finite: the best token has weight 1.
    const double gap = logit[i] - logit[best];
    weight[i] = gap == 0 ? 1.0 : std::exp(gap / params.temperature);
  }
  if (Cuts(params)) Cut(params, scratch);

  double total = 0;
  for (double w : weight) total += w;
  const double target = UniformAt(params.seed, static_cast<uint64_t>(index)) * total;
  double sum = 0;
  int32_t last = best;
  for (size_t i = 0; i < vocab; ++i) {
    if (weight[i] == 0) continue;
    last = static_cast<int32_t>(i);
    sum += weight[i];
    if (sum > target) return last;
  }
  return last;
}

}  // namespace mnemon
