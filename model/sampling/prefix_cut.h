// SPDX-License-Identifier: MIT
// The end of a prefix of tokens in the order of their scores, found by counting the
// digits of the scores, without sorting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/aligned_floats.h"
#include "model/sampling/sampling_operations.h"

namespace mnemon {

// Places in a list of tokens in ascending order of ids.
using Positions = std::vector<int32_t, UnsetAllocator<int32_t>>;

// Order by descending score, then ascending position. REQUIRES: no score is NaN.
struct ByScore {
  std::span<const float> scores;

  bool operator()(int32_t a, int32_t b) const {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  }
};

// The last element of a prefix in the order ByScore.
struct PrefixEnd {
  float score = 0;
  int32_t position = 0;
};

// End of the shortest non-empty prefix whose weights reach `target`. `spare` is
// scratch. REQUIRES: as many weights as scores, at least one; no score is NaN; the sum
// of all weights reaches the target.
PrefixEnd FindPrefixByWeight(std::span<const float> scores,
                             std::span<const uint64_t> weights, uint64_t target,
                             Positions& spare);

// End of the prefix of `count` elements. REQUIRES: 0 < count <= scores.size().
PrefixEnd FindPrefixByCount(const SamplingOperations& operations,
                            std::span<const float> scores, size_t count,
                            Positions& spare);

// Positions of the prefix with this end, ascending.
void ListPrefix(const SamplingOperations& operations, std::span<const float> scores,
                PrefixEnd end, Positions& positions);

}  // namespace mnemon
