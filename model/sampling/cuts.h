// SPDX-License-Identifier: MIT
// Parts of the sampler: each makes the kept set smaller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mnemon {

// What a cut looks at: for each token id its logit and its weight, which is its
// probability but for a common factor.
struct Distribution {
  std::span<const double> logit;   // [V]
  std::span<const double> weight;  // [V]
};

// `kept`: the ids that are kept, not empty; the result is not empty either. Ties keep
// smaller ids. The order of the result is not specified.

// The k with the largest logits. REQUIRES: k > 0.
void CutTopK(const Distribution& all, int32_t k, std::vector<int32_t>& kept);
// The smallest set whose probability among the kept reaches p, those whose information
// is closest to the entropy first.
void CutTypical(const Distribution& all, double p, std::vector<int32_t>& kept);
// The smallest set whose probability among the kept reaches p, the most likely first.
void CutTopP(const Distribution& all, double p, std::vector<int32_t>& kept);
// Those at least `share` as likely as the most likely one.
void CutMinP(const Distribution& all, double share, std::vector<int32_t>& kept);

}  // namespace mnemon
