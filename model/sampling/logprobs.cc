// SPDX-License-Identifier: MIT
#include "model/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace mnemon {

absl::StatusOr<TokenLogprobs> ScoreToken(std::span<const float> logits, int32_t token,
                                         const CandidateChoice& choice,
                                         SamplerScratch& scratch) {
  double most = -INFINITY;
  bool usable = true;
  for (const float logit : logits) {
    usable = usable && !std::isnan(logit) && logit != INFINITY;
    most = std::max(most, double{logit});
  }
  if (!usable || most == -INFINITY) {
    return MakeError(absl::StatusCode::kInternal, "the model returned unusable logits",
                     {.reason = "NON_FINITE_LOGITS"});
  }
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit} - most);
  const double log_total = std::log(total);
  const auto logprob = [&](int32_t id) {
    return static_cast<float>((double{logits[id]} - most) - log_total);
  };

  TokenLogprobs result{.token = token, .logprob = logprob(token), .candidates = {}};
  const size_t count = std::min<size_t>(logits.size(), choice.most_likely);
  if (count > 0) {
    std::vector<int32_t>& order = scratch.order;
    order.resize(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int32_t a, int32_t b) {
                        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                      });
    for (size_t i = 0; i < count; ++i) {
      result.candidates.push_back({order[i], logprob(order[i])});
    }
  }
  for (const int32_t id : choice.ids) result.candidates.push_back({id, logprob(id)});
  return result;
}

}  // namespace mnemon
