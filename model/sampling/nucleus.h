// SPDX-License-Identifier: MIT
// The cut of top-p without a sort of the vocabulary or its exponentials.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sampling/key_sort.h"

namespace mnemon {

struct NucleusScratch {
  std::vector<double> mass;
  std::vector<int32_t> ids;
  std::vector<KeyedId> entries;
  std::vector<KeyedId> spare;
};

// Weights are exp((logit - most) / temperature).
struct LogitDistribution {
  std::span<const double> logit;  // [V]
  double most = 0;                // the largest of them
  double temperature = 1;
};

// Shrinks `ids` to the smallest set whose probability among them reaches p, the most
// likely first, equal logits by rising ids: as when weights are added in this order,
// one by one, and compared with p times their sum. False where roundings decide, or
// for extreme temperatures and sizes: then `ids` are unchanged, and the caller adds the
// weights itself. REQUIRES: 0 < p < 1; ids rise and hold
// one whose logit is the largest.
bool CutToNucleus(const LogitDistribution& all, double p, std::vector<int32_t>& ids,
                  NucleusScratch& scratch);

}  // namespace mnemon
