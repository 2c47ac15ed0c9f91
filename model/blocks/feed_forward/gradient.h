// SPDX-License-Identifier: MIT
// A feed-forward sub-layer in training: x + drop(W2 drop(act(W1 norm(x))) + b2); if
// gated, the activation is multiplied by W3 norm(x).
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/feed_forward/settings.h"
#include "model/blocks/input_norm.h"
#include "model/blocks/pass_step.h"
#include "model/blocks/sub_layer_end.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"
#include "model/compute/gradient/team.h"

namespace mnemon {

// Gradients that the blocks of all layers share, one after the other.
template <class Real>
struct FeedForwardGradients {
  Slab<Real> dout;     // of W2's output [rows, D]; see SubLayerEnd
  Slab<Real> dhidden;  // [rows, F]
  Slab<Real> dnormed;  // [rows, D]
};

template <class Real>
class FeedForwardBlock {
 public:
  FeedForwardBlock(const FeedForward& feed, const BlockPlace& place,
                   const FlatLayout& layout);

  // `gradients`, here and below, are shared by all blocks of this hidden width.
  void Reserve(int64_t rows, bool dropout, FeedForwardGradients<Real>& gradients);
  void Pack(const PassStep<Real>& step, int worker, int workers);
  // Computes some rows; called by all members of a team.
  void Forward(const PassStep<Real>& step, const Team& team, Part rows,
               RowsOfReal<const Real> x, RowsOfReal<Real> out,
               PassScratch<Real>& scratch);
  void Backward(const PassStep<Real>& step, const Team& team, Part rows,
                RowsOfReal<const Real> x, RowsOfReal<const Real> dout,
                RowsOfReal<Real> dx, FeedForwardGradients<Real>& gradients,
                PassScratch<Real>& scratch);
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               RowsOfReal<const Real> dout, FeedForwardGradients<Real>& gradients,
               GradientJobs<Real>& jobs);

 private:
  // Computes some columns of the products with W1 and W3 and of the hidden rows.
  void Widen(const PassStep<Real>& step, RowsOfReal<const Real> x, Part rows,
             Part columns);
  bool fused_relu() const { return hidden_.relu_alone(); }
  // Rows of W1 norm(x), kept apart from the hidden rows only if needed again.
  Slab<Real>& before() { return fused_relu() ? hidden_rows_ : before_; }

  const int64_t site_, width_, d_ff_;
  const Hidden hidden_;
  InputNorm<Real> norm_;
  LinearMap<Real> in_;
  std::optional<LinearMap<Real>> factor_;  // if gated
  LinearMap<Real> out_;
  SubLayerEnd<Real> end_;
  Slab<Real> before_, factors_;  // W1 norm(x), W3 norm(x), later their gradients
  Slab<Real> hidden_rows_;       // after activation, factor and mask
};

}  // namespace mnemon
