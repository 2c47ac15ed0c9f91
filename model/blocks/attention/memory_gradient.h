// SPDX-License-Identifier: MIT
// The attention sub-layer of the Feedback Transformer in training, one token of every
// sequence at a time: x + drop(Wo Attend(LN(x), memory) + bo). The n positions of the
// memory are at distances n .. 1, and the last of them are seen. Without a memory the
// result is x.
//
// The backward pass computes a token's own gradients at once. Its contributions to the
// gradients of memory and tables wait for the other tokens of its block, except for
// positions made within the block: the rest is then one product per sequence and head.
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

// Scratch of one thread.
template <class Real>
struct FeedbackScratch {
  PassScratch<Real> pass;
  AlignedVector<Real> relative;     // [own heads, positions]
  AlignedVector<Real> query;        // q + u of one head
  AlignedVector<Real> scores;       // [positions]
  AlignedVector<Real> by_distance;  // [tokens of a block, positions]
  // For the tokens of a block, [readings, own heads, tokens, positions or K]: gradients
  // of scores, attention weights, q + u, q, gradients of o.
  AlignedVector<Real> dscores, weights, biased_queries, queries, douts;
};

// One token of a team's sequences, as a member sees it.
struct FeedbackToken {
  HeadShare own;
  int64_t t = 0;
  // Positions of the memory that it sees: first .. positions - 1, relative to `base`, a
  // multiple of kColumnPanel and the same for all tokens of a block.
  int64_t base = 0, first = 0, positions = 0;
};

template <class Real>
class FeedbackAttention {
 public:
  // Block number `reading` of the `readings` blocks that read the memory and share
  // scratch.
  FeedbackAttention(const Attention& attention, const BlockPlace& place,
                    int64_t reading, int64_t readings, const FlatLayout& layout);

  // `positions`: maximum over the tokens.
  void Reserve(const PassStep<Real>& step, int64_t positions);
  // Reserves the scratch of all readings. `pairs`: the thread's own heads.
  void Reserve(const PassStep<Real>& step, int64_t positions, int64_t pairs,
               FeedbackScratch<Real>& scratch) const;
  void Pack(const PassStep<Real>& step, int worker, int workers);

  // Forward and Backward are called by all members of a team; each reads and writes
  // only its own heads of the memory.
  void Forward(const PassStep<Real>& step, const Team& team, const FeedbackToken& token,
               RowsOfReal<const Real> x, const MemoryRows<Real>& memory,
               RowsOfReal<Real> out, FeedbackScratch<Real>& scratch);
  // Clears the sums of these heads; called before the first token.
  void BeginBackward(const HeadShare& own);
  // `block`: positions of the memory before the token's block, counted from its base.
  void Backward(const PassStep<Real>& step, const Team& team,
                const FeedbackToken& token, int64_t block, RowsOfReal<const Real> x,
                MemoryRows<Real>& memory, RowsOfReal<const Real> dout,
                RowsOfReal<Real> dx, FeedbackScratch<Real>& scratch);
  // Called when all tokens of a block that see something went backward. `first`: the
  // first of them; `count`: their number.
  void EndBlock(const FeedbackToken& first, int64_t count, int64_t block,
                MemoryRows<Real>& memory, FeedbackScratch<Real>& scratch);
  // Called after the last block.
  void EndBackward(const PassStep<Real>& step, const HeadShare& own);
  // See GradientPass::UnusedGradients.
  std::vector<Part> UnusedGradients() const { return tables_.UnusedGradients(); }
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               RowsOfReal<const Real> dout, GradientJobs<Real>& jobs);

 private:
  // Negative rows do not exist: such distances are not seen.
  Part TableRows() const { return {positions_ - farthest_, positions_}; }
  // Attends from a token's own heads to the memory.
  void Mix(const PassStep<Real>& step, const FeedbackToken& token,
           const MemoryRows<Real>& memory, FeedbackScratch<Real>& scratch);
  // Computes gradients of their queries, and those parts of the memory's gradients that
  // do not wait.
  void MixBackward(const PassStep<Real>& step, const FeedbackToken& token,
                   int64_t block, MemoryRows<Real>& memory,
                   FeedbackScratch<Real>& scratch);
  // Scaled dot products of one head of some sequences with the tables.
  void Relative(const PassStep<Real>& step, const FeedbackToken& token, int64_t head,
                Part sequences, FeedbackScratch<Real>& scratch);
  int64_t RelativeStride() const;
  // Scores of one sequence and head, and the row that turns them into weights.
  SoftmaxRow<Real> Scores(const FeedbackToken& token, int64_t row, int64_t sequence,
                          int64_t head, const MemoryRows<Real>& memory, Real* scores,
                          FeedbackScratch<Real>& scratch);
  const float* Mask(const PassStep<Real>& step, const FeedbackToken& token,
                    int64_t sequence, int64_t head,
                    FeedbackScratch<Real>& scratch) const;
  // Index of token t and an own head of a block in the scratch.
  int64_t BlockRow(const FeedbackToken& token, int64_t sequence, int64_t head,
                   int64_t t) const;

  const int64_t site_, readings_, reading_, width_, heads_, head_width_, all_;
  const int64_t positions_;  // the row of distance 0
  const Real scale_;
  InputNorm<Real> norm_;
  LinearMap<Real> query_, output_;
  SubLayerEnd<Real> end_;
  RelativeTables<Real> tables_;
  int64_t farthest_ = 0;                       // largest distance in this batch
  int64_t row_stride_ = 0;                     // stride of a head's rows
  Slab<Real> queries_, mixed_;                 // [rows, H K]
  std::vector<SoftmaxMoments<Real>> softmax_;  // [rows, H]
  Slab<Real> dmixed_, dquery_;                 // [rows, H K]
  Slab<Real> dout_, dnormed_;                  // [rows, D]
  struct {
    Slab<Real> keys;        // R [distances, H K]
    Slab<Real> biases;      // S [H, distances]
    Slab<Real> bias_rows;   // S once more [distances, H]
    Slab<Real> query_bias;  // u [H K]
  } dtables_;               // per sequence
};

}  // namespace mnemon
