// SPDX-License-Identifier: MIT
// An attention sub-layer in training: x + drop(Wo Attend(LN(x)) + bo), over the tokens
// of a batch and what was kept of those before it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/config/config.h"
#include "model/gradient/linear.h"
#include "model/gradient/pass_step.h"
#include "model/gradient/slab.h"

namespace mnemon {

// What a layer keeps for the tokens that follow.
enum class AttentionMemory : uint8_t {
  kNone,    // nothing: whole sequences
  kKeys,    // keys and values, which are given as they are
  kInputs,  // inputs, which are normed and projected anew and get no gradient
};

// What the blocks of all layers of a model have in common.
struct AttentionOptions {
  AttentionMemory memory = AttentionMemory::kNone;
  bool causal = true;
  int64_t reach = 0;           // keys before its own that a query sees, where causal
  int64_t zero_row = -1;       // of the tables, distance 0; -1: positions not relative
  std::vector<double> slopes;  // of ALiBi, of each head; empty: none
};

// The memory of a layer: rows [B, memory, D] of keys and values, or of inputs.
template <class Real>
struct LayerMemory {
  RowsOfReal<const Real> keys, values;
  RowsOfReal<const Real> inputs;
};

// Gradients that the blocks of all layers use in turn.
template <class Real>
struct AttentionBlockGradients {
  Slab<Real> dout;                  // behind the mask [rows, D]; with dropout
  Slab<Real> dmixed;                // of Attend's output
  Slab<Real> dquery, dkey, dvalue;  // [rows, D]
  Slab<Real> dbiased_query;         // of q + u
  Slab<Real> dnormed;               // [rows, D]
  Slab<Real> dmemory_key, dmemory_value, dmemory_normed;  // [B memory, D]
  Slab<Real> drelative, drelative_bias;  // [B distances, D], [B distances, H]
};

template <class Real>
class AttentionBlock {
 public:
  AttentionBlock(const ModelConfig& config, const AttentionOptions& options,
                 const FlatLayout& layout, int64_t layer);

  void Reserve(const PassStep<Real>& step, AttentionBlockGradients<Real>& gradients);
  void Pack(const PassStep<Real>& step, int worker, int workers);
  // Of some sequences.
  void Forward(const PassStep<Real>& step, Part sequences, RowsOfReal<const Real> x,
               const LayerMemory<Real>& memory, RowsOfReal<Real> out,
               PassScratch<Real>& scratch);
  void Backward(const PassStep<Real>& step, Part sequences, RowsOfReal<const Real> x,
                const LayerMemory<Real>& memory, RowsOfReal<const Real> dout,
                RowsOfReal<Real> dx, AttentionBlockGradients<Real>& gradients,
                PassScratch<Real>& scratch);
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               const LayerMemory<Real>& memory, RowsOfReal<const Real> dout,
               AttentionBlockGradients<Real>& gradients, GradientJobs<Real>& jobs);

  // Of the batch [rows, D], for kKeys.
  RowsOfReal<const Real> keys() { return keys_.rows(); }
  RowsOfReal<const Real> values() { return values_.rows(); }

 private:
  bool relative() const { return options_.zero_row >= 0; }
  bool projects_memory(const PassStep<Real>& step) const {
    return options_.memory == AttentionMemory::kInputs && step.memory > 0;
  }
  AttentionShape Shape(const PassStep<Real>& step) const;
  // Of the tables, those of distances farthest .. 0.
  Part TableRows(const PassStep<Real>& step) const;
  AttentionHead<Real> Head(const PassStep<Real>& step, int64_t sequence, int64_t head,
                           const LayerMemory<Real>& memory);

  const AttentionOptions options_;
  const int64_t layer_, width_, heads_, head_width_;
  NormMap<Real> norm_;
  LinearMap<Real> query_, key_, value_, output_;
  int64_t relative_key_ = -1, relative_bias_ = -1, query_bias_ = -1;  // in the layout
  std::vector<RelativeHead<Real>> tables_;
  int64_t first_table_row_ = 0;  // of all that had a gradient so far
  Slab<Real> normed_, queries_, keys_, values_, mixed_;     // [rows, D]
  AlignedVector<Real> moments_;                             // of x
  Slab<Real> memory_normed_, memory_keys_, memory_values_;  // [B memory, D]
  AlignedVector<Real> memory_moments_;
  std::vector<SoftmaxMoments<Real>> softmax_;  // [B, H, T]
};

}  // namespace mnemon
