// SPDX-License-Identifier: MIT
// The sampler on a device: the tokens of mnemon::Sample (model/sampling/sampler.h), bit
// by bit. All threads of a block call it, 1024 at most; the block is the share's worker
// and draws the tokens of its rows in order. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/sample_cuts.h"

namespace mnemon::device {

class RowSampler {
 public:
  MNEMON_DEVICE RowSampler(const SampleRow& row, int32_t vocab, SampleShared& shared,
                           int32_t* scratch)
      : row_(row), vocab_(vocab), shared_(shared), scratch_(scratch) {}

  // Returns the token, or a code for why there is none.
  MNEMON_DEVICE int32_t Run() {
    const uint32_t seen = Adjust();
    Candidates candidates(row_.logits, vocab_, scratch_, scratch_ + vocab_, shared_);
    const uint64_t best = Best(candidates);
    if (best == 0 || (seen & kSeenUnusable) != 0) return kUnusableLogits;
    if (best >> 32 >= FallingKey(-Infinity()))
      return (seen & kSeenFinite) != 0 ? kNothingAllowed : kUnusableLogits;
    const auto id = static_cast<int32_t>(best & 0xFFFFFFFFu);
    if (row_.temperature == 0) return id;
    return Draw(candidates, {row_.logits[id], row_.temperature});
  }

 private:
  // Applies penalties and biases; returns which kinds of logits it saw among those it
  // changed.
  MNEMON_DEVICE uint32_t Adjust() {
    if (row_.window == nullptr && row_.bias_count == 0) return 0;
    if (ThreadIndex() == 0) shared_.seen = 0;
    uint32_t seen = 0;
    if (row_.window != nullptr)
      seen = Penalize(*row_.window, row_.penalties, row_.logits,
                      reinterpret_cast<uint32_t*>(scratch_));
    seen |= AddBiases(row_.biases, row_.bias_count, row_.logits);
    if (seen != 0) AtomicOr(&shared_.seen, seen);
    Barrier();
    return shared_.seen;
  }

  // Key and id of the first of the largest logits; 0 where a logit is unusable.
  MNEMON_DEVICE uint64_t Best(const Candidates& candidates) const {
    uint64_t best = UINT64_MAX;
    candidates.EachToken([&](bool inside, const CandidateToken& token) {
      if (!inside) return;
      const uint64_t here =
          uint64_t{FallingKey(token.logit)} << 32 | static_cast<uint32_t>(token.id);
      best = Smaller(best, token.logit < Infinity() ? here : 0);
    });
    return BlockFold(best, UINT64_MAX, Least(), shared_.of_warps);
  }

  MNEMON_DEVICE int32_t Draw(Candidates& candidates, const WeightScale& scale) {
    MakeCuts(row_, scale, candidates);
    const DrawWeight weight = CutMinP(row_, scale, candidates);
    const Passed drawn = candidates.PassToken(weight, [&](uint64_t total) {
      return FloorOfFraction(RandomAt(row_.seed, static_cast<uint64_t>(row_.index)),
                             total);
    });
    return candidates.Token(drawn.index).id;
  }

  const SampleRow& row_;
  const int32_t vocab_;
  SampleShared& shared_;
  int32_t* const scratch_;
};

// `scratch`: SampleScratch, the block's own.
MNEMON_DEVICE void Sample(const SampleCall& call, Share share, SampleShared* shared,
                          int32_t* scratch) {
  const int64_t end = share.end(call.count);
  for (int64_t r = share.begin(call.count); r < end; ++r) {
    const DrawRow& draw = call.rows[r];
    SampleRow row = draw.sampler->row;
    row.logits = call.logits.row(draw.logits_row);
    row.index = draw.index;
    const int32_t token = RowSampler(row, call.vocab, *shared, scratch).Run();
    if (ThreadIndex() == 0) {
      call.tokens[r] = draw.sampler->drawn = token;
      if (token >= 0 && row.window != nullptr) Append(*row.window, token);
    }
    Barrier();
  }
}

}  // namespace mnemon::device
