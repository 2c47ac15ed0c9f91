// SPDX-License-Identifier: MIT
// The order in which a cut keeps tokens (docs/numerics.md, Sampling): an ascending key,
// a weight, and the target that the weights of the kept must exceed. One type for all
// cuts, so that their code exists once. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_numbers.h"

namespace mnemon::device {

struct CandidateToken {
  int32_t id = 0;
  float logit = 0;
};

struct CutOrder {
  // In the order of application: top-k, typical, top-p.
  enum class By : uint8_t { kCount, kTypicality, kProbability };

  By by = By::kCount;
  int32_t k = 1;  // kCount: number to keep, less than all
  float p = 1;    // others: share of the weights to reach
  WeightScale scale;
  // kTypicality: log of the sum of the weights, and the expected information.
  float log_total = 0;
  float entropy = 0;

  MNEMON_DEVICE uint32_t Key(const CandidateToken& token) const {
    if (by != By::kTypicality) return FallingKey(token.logit);
    // Tokens without weight have no effect, wherever they are ordered.
    const float information = log_total - scale.Exponent(token.logit);
    return BitsOf(fabsf(information - entropy));
  }
  MNEMON_DEVICE uint64_t Weight(const CandidateToken& token) const {
    return by == By::kCount ? 1 : scale.Weight(token.logit);
  }
  // Less than the sum of all weights, so that at least one token is kept.
  MNEMON_DEVICE uint64_t Target(uint64_t total) const {
    const uint64_t least =
        by == By::kCount ? static_cast<uint64_t>(k) : CeilOfShare(p, total);
    return least > 0 ? least - 1 : 0;
  }
};

}  // namespace mnemon::device
