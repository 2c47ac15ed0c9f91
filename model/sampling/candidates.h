// SPDX-License-Identifier: MIT
// The set of tokens that may be drawn, cut by top-k, typical, top-p and min-p, and the
// draw. Whole numbers decide (docs/numerics.md, Sampling).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_floats.h"
#include "model/sampling/prefix_cut.h"
#include "model/sampling/sampling_operations.h"

namespace mnemon {

// Vectors that a caller keeps between calls to avoid allocation.
struct CandidateScratch {
  std::vector<int32_t> ids;
  UnsetFloats logits;
  UnsetFloats information;
  std::vector<uint64_t, UnsetAllocator<uint64_t>> weights;
  std::vector<uint64_t> block_sums;
  Positions positions;

  // Has room for what calls with up to `vocab` logits need.
  void Reserve(int64_t vocab);
};

// Weights cost an exponential each and are computed when a cut or the caller needs
// them, of the tokens that are left then. Cuts have to come in the order in which they
// are declared; each works on what the ones before it have kept, and keeps one token at
// least. Ties keep smaller ids. Tokens whose weight is 0 are never drawn.
class Candidates {
 public:
  // All tokens. `logits` ([V], finite or -infinity, below 2^24 of them) and the others
  // outlive it; `scale.most` is the largest logit. REQUIRES: temperature > 0.
  Candidates(std::span<const float> logits, const LogitScale& scale,
             const SamplingOperations& operations, CandidateScratch& scratch);

  // The k with the largest logits. REQUIRES: k > 0.
  void CutTopK(int32_t k);
  // The smallest set whose weight reaches p of that of the kept, those whose
  // information is closest to the entropy first.
  void CutTypical(float p);
  // The smallest set whose weight reaches p of that of the kept, the largest logits
  // first.
  void CutTopP(float p);
  // Those whose weight is at least `share` of the largest one.
  void CutMinP(float share);

  // The token where the running sum of the weights, by rising ids, passes random / 2^64
  // of their total.
  int32_t Draw(uint64_t random);

  size_t size() const { return logits_.size(); }
  // The i-th kept token; ids rise.
  int32_t id(size_t i) const {
    return all_ ? static_cast<int32_t>(i) : scratch_.ids[i];
  }
  // Computes the weights of all that are kept, in the order of ids.
  std::span<const uint64_t> Weigh();

 private:
  // The logit whose weight is `weight`, about.
  float LogitOf(double weight) const;
  // Weights of consecutive tokens of the kept.
  struct Block {
    std::span<const uint64_t> weights;
    uint64_t total;
  };
  Block WeighBlock(size_t block);
  // The entropy; sets scratch_.information. REQUIRES: weighed_.
  float Inform();
  // Sets scratch_.positions to those of logits that are at least `least`.
  void Find(float least);
  // Keeps the tokens at scratch_.positions.
  void Keep();

  const SamplingOperations& operations_;
  const LogitScale scale_;
  CandidateScratch& scratch_;
  std::span<const float> logits_;  // of the kept
  bool all_ = true;                // nothing was cut: scratch_.ids is not set
  bool weighed_ = false;           // scratch_.weights are those of the kept
  uint64_t total_ = 0;             // of them, once weighed
};

}  // namespace mnemon
