// SPDX-License-Identifier: MIT
// Typical sampling: the information of tokens and its mean. All threads of a block call
// it. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_candidates.h"

namespace mnemon::device {

// sum16 of `parts` in blocks of 1024, added upward. Overwrites `parts`, and reads them
// until the next barrier. Half a warp adds a block.
MNEMON_DEVICE float BlockSum(float* parts, int32_t count) {
  constexpr int32_t kBlock = 1024;
  const int32_t blocks = (count + kBlock - 1) / kBlock;
  for (int32_t pair = WarpIndex(); pair * 2 < blocks; pair += WarpCount()) {
    const int32_t block = pair * 2 + Lane() / 16;
    float* const of_block = parts + block * kBlock;
    const int32_t size = Smaller(count - block * kBlock, kBlock);
    const float sum =
        HalfSumOf(size, [&](int64_t i, float before) { return before + of_block[i]; });
    if (Lane() % 16 == 0 && block < blocks) of_block[0] = sum;
  }
  Barrier();
  float sum = 0;
  for (int32_t block = 0; block < blocks; ++block) sum += parts[block * kBlock];
  return sum;
}

MNEMON_DEVICE CutOrder TypicalOrder(const Candidates& candidates,
                                    const WeightScale& scale, float p) {
  uint64_t weight = 0;
  candidates.EachToken([&](bool inside, const CandidateToken& token) {
    if (inside) weight += scale.Weight(token.logit);
  });
  weight = BlockFold(weight, 0, Sum(), candidates.of_warps());
  const double scaled = static_cast<double>(weight) * 0x1p-40;
  const auto total = static_cast<float>(scaled);
  const auto log_total = static_cast<float>(Log(scaled));
  float* const parts = candidates.scratch();
  if (candidates.count() < candidates.vocab()) {
    for (int32_t i = ThreadIndex(); i < candidates.vocab(); i += ThreadCount())
      parts[i] = 0;
    Barrier();
  }
  candidates.EachToken([&](bool inside, const CandidateToken& token) {
    if (!inside) return;
    const float x = scale.Exponent(token.logit), e = Exp(x);
    parts[token.id] = FixedPoint(e) > 0 ? Divide(e, total) * (log_total - x) : 0.0f;
  });
  Barrier();
  CutOrder order;
  order.by = CutOrder::By::kTypicality;
  order.p = p;
  order.scale = scale;
  order.log_total = log_total;
  order.entropy = BlockSum(parts, candidates.vocab());
  return order;
}

}  // namespace mnemon::device
