// SPDX-License-Identifier: MIT
#include "model/sampling/logprobs.h"

#include <algorithm>

#include "base/float_mode.h"
#include "model/compute/functions.h"
#include "model/sampling/prefix_cut.h"

namespace mnemon {

absl::StatusOr<TokenLogprobs> ScoreToken(std::span<const float> logits, int32_t token,
                                         const CandidateChoice& choice,
                                         SamplerScratch& scratch) {
  const IeeeFloatMode mode;
  const SamplingOperations& operations = *scratch.operations;
  const auto vocab = static_cast<int64_t>(logits.size());
  const LargestLogit best = operations.largest(logits.data(), vocab);
  if (!best.usable) return UnusableLogits();
  float total = 0;
  for (int64_t begin = 0; begin < vocab; begin += kSamplingBlock) {
    total += operations.sum_exp(best.logit, logits.data() + begin,
                                std::min(kSamplingBlock, vocab - begin));
  }
  const auto log_total = static_cast<float>(numerics::Log(total));
  const auto logprob = [&](int32_t id) {
    return (logits[id] - best.logit) - log_total;
  };

  TokenLogprobs result{.token = token, .logprob = logprob(token), .candidates = {}};
  const size_t count = std::min<size_t>(logits.size(), choice.most_likely);
  result.candidates.reserve(count + choice.ids.size());
  if (count > 0) {
    Positions& ids = scratch.candidates.positions;
    ListPrefix(operations, logits, FindPrefixByCount(operations, logits, count, ids),
               ids);
    std::sort(ids.begin(), ids.end(), ByScore{logits});
    for (const int32_t id : ids) result.candidates.push_back({id, logprob(id)});
  }
  for (const int32_t id : choice.ids) result.candidates.push_back({id, logprob(id)});
  return result;
}

}  // namespace mnemon
