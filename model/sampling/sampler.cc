// SPDX-License-Identifier: MIT
#include "model/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/strings.h"
#include "model/sampling/philox.h"

namespace mnemon {
namespace {

absl::Status NotSampleable() {
  return MakeError(absl::StatusCode::kInternal, "the model returned unusable logits",
                   {.reason = "NON_FINITE_LOGITS"});
}

// The first of the largest logits; -1 when a logit is NaN or +inf, or all are -inf.
int32_t ArgMax(std::span<const float> logits) {
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) return -1;
    if (logits[i] == -INFINITY) continue;
    if (best < 0 || logits[i] > logits[best]) best = static_cast<int32_t>(i);
  }
  return best;
}

// Orders ids by falling logit, smaller id first among equals, as far as `count`.
void OrderByLogit(std::span<const float> logits, size_t count,
                  std::vector<int32_t>& order) {
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int32_t a, int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& params) {
  if (!std::isfinite(params.temperature) || params.temperature < 0) {
    return InvalidField("temperature", StrCat("temperature must be finite and >= 0",
                                              ", got ", params.temperature));
  }
  if (params.top_k < 0) {
    return InvalidField("top_k",
                        StrCat("top_k must be >= 0 (0 = off), got ", params.top_k));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return InvalidField(
        "top_p", StrCat("top_p must be above 0 and at most 1, got ", params.top_p));
  }
  return absl::OkStatus();
}

absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                               const SamplingParams& params, int64_t index,
                               SamplerScratch& scratch) {
  const int32_t best = ArgMax(logits);
  if (best < 0) return NotSampleable();
  if (params.temperature == 0) return best;

  std::vector<double>& weight = scratch.weight;
  weight.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    // Subtracting first keeps tiny temperatures finite: the best token has weight 1.
    const double gap = double{logits[i]} - double{logits[best]};
    weight[i] = gap == 0 ? 1.0 : std::exp(gap / params.temperature);
  }

  const size_t vocab = logits.size();
  size_t kept = vocab;
  if (params.top_k > 0) kept = std::min<size_t>(vocab, params.top_k);
  if (kept < vocab || params.top_p < 1) {
    OrderByLogit(logits, params.top_p < 1 ? vocab : kept, scratch.order);
    if (params.top_p < 1) {
      double total = 0;
      for (size_t i = 0; i < kept; ++i) total += weight[scratch.order[i]];
      double sum = 0;
      for (size_t i = 0; i < kept; ++i) {
        sum += weight[scratch.order[i]];
        if (sum >= params.top_p * total) kept = i + 1;
      }
    }
    for (size_t i = kept; i < vocab; ++i) weight[scratch.order[i]] = 0;
  }

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
