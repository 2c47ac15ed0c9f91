// SPDX-License-Identifier: MIT
// The fast weights sub-layer in training: x + drop(Wo Read(z) + bo), where queries,
// keys and values are projections of z, which is x or its norm.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/blocks/fast_weights/delta_rule_gradient.h"
#include "model/blocks/fast_weights/settings.h"
#include "model/blocks/input_norm.h"
#include "model/blocks/mixer_block.h"
#include "model/blocks/sub_layer_end.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"

namespace mnemon {

// Gradients that the blocks of all layers share, one after the other.
template <class Real>
struct FastWeightGradients {
  Slab<Real> dout;                  // of W_o's output [rows, D]; see SubLayerEnd
  Slab<Real> dread;                 // of what was read [rows, H K]
  Slab<Real> dquery, dkey, dvalue;  // [rows, H K]
  Slab<Real> dgate;                 // [rows, H]
  Slab<Real> dnormed;               // [rows, D]; with a norm
};

template <class Real>
class FastWeightBlock final : public MixerBlock<Real> {
 public:
  using CarryEntry = typename PassCarry<Real>::Entry;

  // `gradients` is shared by all blocks with such heads.
  FastWeightBlock(const FastWeights& fast, const BlockPlace& place,
                  const FlatLayout& layout,
                  std::shared_ptr<FastWeightGradients<Real>> gradients);

  absl::Status Check(const PassStep<Real>&, int64_t) const override {
    return absl::OkStatus();
  }
  int64_t carry_entries() const override { return normalised_ ? 2 : 1; }
  void Reserve(const PassStep<Real>& step, std::span<const CarryEntry> carry) override;
  void Pack(const PassStep<Real>& step, int worker, int workers) override;
  void Project(const PassStep<Real>& step, Part rows, Part memory,
               RowsOfReal<const Real> x) override;
  void Mix(const PassStep<Real>& step, Part heads, PassScratch<Real>& scratch) override;
  void Finish(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
              RowsOfReal<Real> out, PassScratch<Real>& scratch) override;
  void FinishBackward(const PassStep<Real>& step, Part rows,
                      RowsOfReal<const Real> dout, PassScratch<Real>& scratch) override;
  void MixBackward(const PassStep<Real>& step, Part heads,
                   PassScratch<Real>& scratch) override;
  void ProjectBackward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                       RowsOfReal<const Real> dout, RowsOfReal<Real> dx) override;
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               RowsOfReal<const Real> dout, GradientJobs<Real>& jobs) override;
  std::vector<CarryEntry> Continue(const PassStep<Real>& step,
                                   RowsOfReal<const Real> x) override;

 private:
  DeltaShape Shape(const PassStep<Real>& step) const;
  DeltaHead<Real> Head(const PassStep<Real>& step, int64_t sequence, int64_t head);
  // Entry state of chunk `chunk` of a head.
  Real* State(const DeltaShape& shape, int64_t sequence, int64_t head, int64_t chunk);
  // Sets the state before the batch.
  void SetFirstState(const DeltaShape& shape, int64_t sequence, int64_t head);

  const int64_t site_, width_, heads_, head_width_;
  const FeatureMap map_;
  const bool normalised_;
  InputNorm<Real> norm_;
  LinearMap<Real> query_, key_, value_;
  std::optional<LinearMap<Real>> gate_;  // with the delta rule
  LinearMap<Real> output_;
  SubLayerEnd<Real> end_;
  const std::shared_ptr<FastWeightGradients<Real>> gradients_;
  std::span<const CarryEntry> carry_;
  Slab<Real> queries_, keys_, values_, read_;  // [rows, H K]
  Slab<Real> gates_;                           // beta [rows, H]
  AlignedVector<Real> states_;                 // [B, H, chunks + 1, state_size]
};

}  // namespace mnemon
