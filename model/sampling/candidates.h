// SPDX-License-Identifier: MIT
// The set of tokens that may be drawn, reduced by top-k, typical, top-p and min-p, and
// the draw. Uses integer arithmetic (docs/numerics.md, Sampling).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/aligned_floats.h"
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

  // Reserves memory for calls with up to `vocab` logits.
  void Reserve(int64_t vocab);
};

// Weights cost an exponential each; they are computed for the remaining tokens when a
// cut or the caller needs them. Cuts must be called in the order of declaration; each
// works on the tokens kept by those before it, and keeps at least one. Ties keep
// smaller ids. Tokens of weight 0 are never drawn.
class Candidates {
 public:
  // Starts with all tokens. `logits` ([V], finite or -infinity, V < 2^24) and the
  // others must outlive it; `scale.most` is the largest logit. REQUIRES: temperature >
  // 0.
  Candidates(std::span<const float> logits, const LogitScale& scale,
             const SamplingOperations& operations, CandidateScratch& scratch);

  // Keeps the k largest logits. REQUIRES: k > 0.
  void CutTopK(int32_t k);
  // Keeps the smallest set whose weight reaches p of the total, taking tokens whose
  // information is closest to the entropy first.
  void CutTypical(float p);
  // Keeps the smallest set whose weight reaches p of the total, taking the largest
  // logits first.
  void CutTopP(float p);
  // Keeps tokens whose weight is at least `share` of the largest.
  void CutMinP(float share);

  // The token at which the running sum of the weights, in ascending order of ids,
  // passes random / 2^64 of the total.
  int32_t Draw(uint64_t random);

  size_t size() const { return logits_.size(); }
  // The i-th kept token; ids ascend.
  int32_t id(size_t i) const {
    return all_ ? static_cast<int32_t>(i) : scratch_.ids[i];
  }
  // Computes the weights of all kept tokens, in the order of ids.
  std::span<const uint64_t> Weigh();

 private:
  // Approximate logit of a weight.
  float LogitOf(double weight) const;
  // Weights of consecutive kept tokens.
  struct Block {
    std::span<const uint64_t> weights;
    uint64_t total;
  };
  Block WeighBlock(size_t block);
  // Returns the entropy; sets scratch_.information. REQUIRES: weighed_.
  float Inform();
  // Sets scratch_.positions to those of logits >= `least`.
  void Find(float least);
  // Keeps the tokens at scratch_.positions.
  void Keep();

  const SamplingOperations& operations_;
  const LogitScale scale_;
  CandidateScratch& scratch_;
  std::span<const float> logits_;  // of the kept tokens
  bool all_ = true;                // no cut so far: scratch_.ids is not set
  bool weighed_ = false;           // scratch_.weights are set for the kept tokens
  uint64_t total_ = 0;             // sum of the weights, once weighed
};

}  // namespace mnemon
