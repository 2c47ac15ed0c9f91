// SPDX-License-Identifier: MIT
// The cuts of a row. All threads of a block call it. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_row.h"
#include "model/compute/cuda/sample_typical.h"

namespace mnemon::device {

MNEMON_DEVICE bool HasCut(const SampleRow& row, CutOrder::By by, int32_t vocab) {
  return by == CutOrder::By::kCount        ? row.top_k > 0 && row.top_k < vocab
         : by == CutOrder::By::kTypicality ? row.typical_p < 1
                                           : row.top_p < 1;
}

// Applies top-k, typical and top-p. REQUIRES: temperature > 0.
MNEMON_DEVICE void MakeCuts(const SampleRow& row, const WeightScale& scale,
                            Candidates& candidates) {
  // A loop, so that the code of a cut exists once.
  for (int cut = 0; cut < 3; ++cut) {
    const auto by = static_cast<CutOrder::By>(cut);
    if (!HasCut(row, by, candidates.vocab())) continue;
    CutOrder order;
    if (by == CutOrder::By::kTypicality) {
      order = TypicalOrder(candidates, scale, row.typical_p);
    } else {
      order.by = by;
      order.k = row.top_k;
      order.p = row.top_p;
      order.scale = scale;
    }
    candidates.Cut(order);
  }
}

// Weight with which a token is drawn; 0 if min_p drops it.
struct DrawWeight {
  WeightScale scale;
  uint64_t least = 0;

  MNEMON_DEVICE uint64_t operator()(const CandidateToken& token) const {
    const uint64_t weight = scale.Weight(token.logit);
    return weight >= least ? weight : 0;
  }
};

// Only typical sampling can have dropped the largest weight.
MNEMON_DEVICE DrawWeight CutMinP(const SampleRow& row, const WeightScale& scale,
                                 const Candidates& candidates) {
  if (!(row.min_p > 0)) return {scale, 0};
  uint64_t most = kWeightOne;
  if (row.typical_p < 1) {
    most = 0;
    candidates.EachToken([&](bool inside, const CandidateToken& token) {
      if (inside) most = Most()(most, scale.Weight(token.logit));
    });
    most = BlockFold(most, 0, Most(), candidates.of_warps());
  }
  return {scale, CeilOfShare(row.min_p, most)};
}

}  // namespace mnemon::device
