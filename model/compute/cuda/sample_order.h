// SPDX-License-Identifier: MIT
// The order in which a cut keeps tokens (docs/numerics.md, Sampling): a key that rises,
// a weight, and what the weights of the kept exceed. One type for all cuts, so that
// their code is there once. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_numbers.h"

namespace mnemon::device {

struct CandidateToken {
  int32_t id = 0;
  float logit = 0;
};

struct CutOrder {
  // In the order in which they come: top-k, typical, top-p.
  enum class By : uint8_t { kCount, kTypicality, kProbability };

  By by = By::kCount;
  int32_t k = 1;  // of kCount: so many are kept, fewer than there are
  float p = 1;    // of the others: the share of the weights that the kept reach
  WeightScale scale;
  // Of kTypicality: log of the sum of the weights, and what the information is near to.
  float log_total = 0;
  float entropy = 0;

  MNEMON_DEVICE uint32_t Key(const CandidateToken& token) const {
    if (by != By::kTypicality) return FallingKey(token.logit);
    // Tokens without weight matter nowhere, wherever they come.
    const float information = log_total - scale.Exponent(token.logit);
    return BitsOf(fabsf(information - entropy));
  }
  MNEMON_DEVICE uint64_t Weight(const CandidateToken& token) const {
    return by == By::kCount ? 1 : scale.Weight(token.logit);
  }
  // Below the sum of all weights, so that one token at least is kept.
  MNEMON_DEVICE uint64_t Target(uint64_t total) const {
    const uint64_t least =
        by == By::kCount ? static_cast<uint64_t>(k) : CeilOfShare(p, total);
    return least > 0 ? least - 1 : 0;
  }
};

}  // namespace mnemon::device
