// SPDX-License-Identifier: MIT
// The operations between a projection and the scores of its heads, in training: the
// norm of each head, and rotary positions (calls.h, TurnCall).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/blocks/attention/settings.h"
#include "model/blocks/pass_step.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"

namespace mnemon {

// Cosines and sines of the positions of a batch.
template <class Real>
class RotaryRows {
 public:
  explicit RotaryRows(const Rotary& rotary);

  // Reserves positions first .. first + time-1. May throw std::bad_alloc.
  void Reserve(int64_t first, int64_t time);
  // Turns the head of token t in place; `back`: in the opposite direction, for
  // gradients.
  void Turn(int64_t t, bool back, Real* head) const;

 private:
  const std::vector<double> frequencies_;  // [half]
  const double magnitude_;
  int64_t first_ = -1, time_ = 0;
  Slab<Real> cosines_, sines_;  // [time, half]
};

template <class Real>
class HeadTurn {
 public:
  // For `heads` heads; `norm_base` names the norm's tensors.
  HeadTurn(const Attention& attention, const Norm& norm, const std::string& norm_base,
           int64_t heads, const FlatLayout& layout);

  // May throw std::bad_alloc.
  void Reserve(const PassStep<Real>& step);
  // Transforms some rows of heads [rows, heads K] in place.
  void Forward(const PassStep<Real>& step, Part rows, RowsOfReal<Real> heads);
  // Turns their gradient into that of Forward's input.
  void Backward(const PassStep<Real>& step, Part rows, RowsOfReal<Real> gradient);
  void AddJobs(const PassStep<Real>& step, GradientJobs<Real>& jobs);

 private:
  // The norm of all heads of row `r`, or of head `h` of some rows.
  NormPass<Real> Pass(const PassStep<Real>& step, int64_t r, int64_t h);

  const int64_t heads_, width_;  // K
  std::optional<NormMap<Real>> norm_;
  std::optional<RotaryRows<Real>> rotary_;
  Slab<Real> before_, dnormed_;  // [rows, heads K], of the norm
  Slab<Real> moments_;           // [heads, 2 rows]
};

}  // namespace mnemon
