// SPDX-License-Identifier: MIT
// An attention sub-layer in training: x + drop(Wo Attend(norm(x)) + bo), over the
// tokens of a batch and the memory kept of earlier tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/blocks/attention/attend_gradient.h"
#include "model/blocks/attention/output_gate.h"
#include "model/blocks/attention/relative_gradient.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/attention/turn_gradient.h"
#include "model/blocks/input_norm.h"
#include "model/blocks/mixer_block.h"
#include "model/blocks/pass_step.h"
#include "model/blocks/sub_layer_end.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"

namespace mnemon {

// What a layer keeps for later tokens.
enum class AttentionMemory : uint8_t {
  kNone,    // nothing: whole sequences
  kKeys,    // keys and values, as they are
  kInputs,  // inputs, which are normed and projected anew and get no gradient: only
            // the norm and the projections do, through MemorySums
};

// Settings shared by the blocks of all layers of a model.
struct AttentionOptions {
  AttentionMemory memory = AttentionMemory::kNone;
  int64_t most_memory = 0;  // rows kept of each sequence
  int64_t most_keys = 0;    // most keys of a batch
  bool causal = true;
  int64_t reach = 0;           // if causal: keys before its own that a query sees
  int64_t zero_row = 0;        // of the tables, for distance 0; with relative positions
  std::vector<double> slopes;  // of ALiBi, by head; empty: none
  double scale = 1;            // of scores
  double cap = 0;              // of scores; 0: none
};

// Buffers that the blocks of all layers share, one after the other.
template <class Real>
struct AttentionBlockRows {
  Slab<Real> memory_normed;               // [B memory, D]; the rest are gradients
  Slab<Real> dout;                        // of W_o's output [rows, D]; see SubLayerEnd
  Slab<Real> dmixed;                      // of Attend's output [rows, H K]
  Slab<Real> dquery;                      // [rows, H K]
  Slab<Real> dkey, dvalue;                // [rows, G K]
  Slab<Real> dbiased_query;               // of q + u
  Slab<Real> dnormed;                     // [rows, D]
  Slab<Real> dmemory_key, dmemory_value;  // [B memory, G K]
  Slab<Real> drelative, drelative_bias;   // [B distances, H K], [B distances, H]
};

template <class Real>
class AttentionBlock final : public MixerBlock<Real> {
 public:
  using CarryEntry = typename PassCarry<Real>::Entry;

  // `shared` belongs to all blocks with such heads. For a model of `context` positions;
  // its carry has as many rows as a window if `ring`, else all.
  AttentionBlock(const Attention& attention, const BlockPlace& place, bool whole,
                 int64_t context, bool ring, const FlatLayout& layout,
                 std::shared_ptr<AttentionBlockRows<Real>> shared);

  absl::Status Check(const PassStep<Real>& step, int64_t position) const override;
  int64_t carry_entries() const override;
  void Reserve(const PassStep<Real>& step, std::span<const CarryEntry> carry) override;
  void Pack(const PassStep<Real>& step, int worker, int workers) override;
  int64_t projected_memory() const override {
    return projects_memory() ? memory_.count : 0;
  }
  void Project(const PassStep<Real>& step, Part rows, Part memory,
               RowsOfReal<const Real> x) override;
  void Mix(const PassStep<Real>& step, Part groups,
           PassScratch<Real>& scratch) override;
  void Finish(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
              RowsOfReal<Real> out, PassScratch<Real>& scratch) override;
  void FinishBackward(const PassStep<Real>& step, Part rows,
                      RowsOfReal<const Real> dout, PassScratch<Real>& scratch) override;
  void MixBackward(const PassStep<Real>& step, Part groups,
                   PassScratch<Real>& scratch) override;
  void ProjectBackward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                       RowsOfReal<const Real> dout, RowsOfReal<Real> dx) override;
  int64_t more_sums() const override;
  void PlaceSums(int64_t begin) override { more_sums_ = begin; }
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               RowsOfReal<const Real> dout, GradientJobs<Real>& jobs) override;
  void FinishSums(const Real* weights, Real* sums) const override;
  std::vector<Part> UnusedGradients() const override;
  std::vector<CarryEntry> Continue(const PassStep<Real>& step,
                                   RowsOfReal<const Real> x) override;

 private:
  bool projects_memory() const {
    return options_.memory == AttentionMemory::kInputs && memory_.count > 0;
  }
  // Sums of a projection of memories: 0 for keys, 1 for values.
  NormedSums<Real> MemorySums(Real* sums, int projection) const;
  AttentionShape Shape(const PassStep<Real>& step) const;
  // Rows of the tables for distances farthest .. 0.
  Part TableRows(const PassStep<Real>& step) const;
  AttentionHead<Real> Head(const PassStep<Real>& step, int64_t sequence, int64_t head);
  // The last rows [width] of each sequence's memory `before` and batch.
  CarryEntry LastRows(const PassStep<Real>& step, int64_t width,
                      RowsOfReal<const Real> before, RowsOfReal<const Real> rows) const;

  const AttentionOptions options_;
  const std::shared_ptr<AttentionBlockRows<Real>> shared_;
  const int64_t site_, width_, heads_, sharing_, head_width_;
  const int64_t all_, kept_;  // H K, G K
  InputNorm<Real> norm_;
  LinearMap<Real> query_, key_, value_, output_;
  OutputGate<Real> gate_;
  struct {
    HeadTurn<Real> query, key;
  } turns_;
  SubLayerEnd<Real> end_;
  std::optional<RelativeTables<Real>> tables_;  // with relative positions
  Slab<Real> queries_, mixed_;                  // [rows, H K]
  Slab<Real> keys_, values_;                    // [rows, G K]
  // Memory of the batch: rows of keys and values, or of inputs, per sequence.
  struct {
    int64_t count = 0;  // M
    RowsOfReal<const Real> given_keys, given_values, inputs;
    Slab<Real> standard;      // [B M, D], normed without gain and bias
    Slab<Real> keys, values;  // [B M, G K], projected
  } memory_;
  int64_t more_sums_ = 0;
  std::vector<SoftmaxMoments<Real>> softmax_;  // [B, H, T]
};

}  // namespace mnemon
