// SPDX-License-Identifier: MIT
// The attention sub-layer of the Feedback Transformer in training, one token of every
// sequence at a time: x + drop(Wo Attend(LN(x), memory) + bo), where the n positions of
// the memory lie at distances n .. 1, and the last of them are seen. Without a memory
// it is x.
//
// Backward, a token's own gradients are computed at once. What it adds to those of the
// memory and of the tables waits for the other tokens of its block, but for positions
// that were made within the block: then the rest is one product for each sequence and
// head.
#pragma once

#include <cstdint>
#include <vector>

#include "model/blocks/attention/attend_gradient.h"
#include "model/blocks/attention/memory_rows.h"
#include "model/blocks/attention/relative_gradient.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/input_norm.h"
#include "model/blocks/pass_step.h"
#include "model/blocks/sub_layer_end.h"
#include "model/compute/gradient/head_share.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"
#include "model/compute/gradient/team.h"

namespace mnemon {

// Tokens of a block.
inline constexpr int64_t kFeedbackBlock = 16;

// Set aside for one thread.
template <class Real>
struct FeedbackScratch {
  PassScratch<Real> pass;
  AlignedVector<Real> relative;     // [own heads, positions]
  AlignedVector<Real> query;        // q + u of one head
  AlignedVector<Real> scores;       // [positions]
  AlignedVector<Real> by_distance;  // [tokens of a block, positions]
  // Of the tokens of a block [readings, own heads, tokens, positions or K]: gradients
  // of scores, attention weights, q + u, q, gradients of o.
  AlignedVector<Real> dscores, weights, biased_queries, queries, douts;
};

// One token of a team's sequences, as a member sees it.
struct FeedbackToken {
  HeadShare own;
  int64_t t = 0;
  // Positions of the memory that it sees: first .. positions - 1 from `base` on, which
  // is a multiple of kColumnPanel, and one for all tokens of a block.
  int64_t base = 0, first = 0, positions = 0;
};

template <class Real>
class FeedbackAttention {
 public:
  // Number `reading` of `readings` blocks that read the memory, which share scratch.
  FeedbackAttention(const Attention& attention, const BlockPlace& place,
                    int64_t reading, int64_t readings, const FlatLayout& layout);

  // `positions`: the most that a token has.
  void Reserve(const PassStep<Real>& step, int64_t positions);
  // For all readings. `pairs`: the thread's own heads.
  void Reserve(const PassStep<Real>& step, int64_t positions, int64_t pairs,
               FeedbackScratch<Real>& scratch) const;
  void Pack(const PassStep<Real>& step, int worker, int workers);

  // Forward and Backward are by all members of a team; of the memory each reads and
  // writes its own heads alone.
  void Forward(const PassStep<Real>& step, const Team& team, const FeedbackToken& token,
               RowsOfReal<const Real> x, const MemoryRows<Real>& memory,
               RowsOfReal<Real> out, FeedbackScratch<Real>& scratch);
  // Before the first token: sums of these heads begin.
  void BeginBackward(const HeadShare& own);
  // `block`: positions of the memory before the token's block, from its base on.
  void Backward(const PassStep<Real>& step, const Team& team,
                const FeedbackToken& token, int64_t block, RowsOfReal<const Real> x,
                MemoryRows<Real>& memory, RowsOfReal<const Real> dout,
                RowsOfReal<Real> dx, FeedbackScratch<Real>& scratch);
  // When all tokens of a block that see something went backward: the first of them, and
  // how many they are.
  void EndBlock(const FeedbackToken& first, int64_t count, int64_t block,
                MemoryRows<Real>& memory, FeedbackScratch<Real>& scratch);
  // Behind the last block.
  void EndBackward(const PassStep<Real>& step, const HeadShare& own);
  // As GradientPass::UnusedGradients.
  std::vector<Part> UnusedGradients() const { return tables_.UnusedGradients(); }
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               RowsOfReal<const Real> dout, GradientJobs<Real>& jobs);

 private:
  // Below 0 there are none: such distances are not seen.
  Part TableRows() const { return {positions_ - farthest_, positions_}; }
  // What a token's own heads find in the memory.
  void Mix(const PassStep<Real>& step, const FeedbackToken& token,
           const MemoryRows<Real>& memory, FeedbackScratch<Real>& scratch);
  // Gradients of their queries, and those that the memory gets at once.
  void MixBackward(const PassStep<Real>& step, const FeedbackToken& token,
                   int64_t block, MemoryRows<Real>& memory,
                   FeedbackScratch<Real>& scratch);
  // Scaled dot products with positions, of one head of some sequences.
  void Relative(const PassStep<Real>& step, const FeedbackToken& token, int64_t head,
                Part sequences, FeedbackScratch<Real>& scratch);
  int64_t RelativeStride() const;
  // Of one sequence and head: scores, and the row that makes weights of them.
  SoftmaxRow<Real> Scores(const FeedbackToken& token, int64_t row, int64_t sequence,
                          int64_t head, const MemoryRows<Real>& memory, Real* scores,
                          FeedbackScratch<Real>& scratch);
  const float* Mask(const PassStep<Real>& step, const FeedbackToken& token,
                    int64_t sequence, int64_t head,
                    FeedbackScratch<Real>& scratch) const;
  // The place of token t of a block, of an own head, in the scratch.
  int64_t BlockRow(const FeedbackToken& token, int64_t sequence, int64_t head,
                   int64_t t) const;

  const int64_t site_, readings_, reading_, width_, heads_, head_width_, all_;
  const int64_t positions_;  // the row of distance 0
  const Real scale_;
  InputNorm<Real> norm_;
  LinearMap<Real> query_, output_;
  SubLayerEnd<Real> end_;
  RelativeTables<Real> tables_;
  int64_t farthest_ = 0;                       // distance of this batch
  int64_t row_stride_ = 0;                     // of a head's rows
  Slab<Real> queries_, mixed_;                 // [rows, H K]
  std::vector<SoftmaxMoments<Real>> softmax_;  // [rows, H]
  Slab<Real> dmixed_, dquery_;                 // [rows, H K]
  Slab<Real> dout_, dnormed_;                  // [rows, D]
  struct {
    Slab<Real> keys;        // R [distances, H K]
    Slab<Real> biases;      // S [H, distances]
    Slab<Real> bias_rows;   // S once more [distances, H]
    Slab<Real> query_bias;  // u [H K]
  } dtables_;               // of each sequence
};

}  // namespace mnemon
