// SPDX-License-Identifier: MIT
// The end of a language model in training: final norm, output head, cross-entropy.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/config.h"
#include "model/gradient/linear.h"
#include "model/gradient/pass_step.h"
#include "model/gradient/slab.h"

namespace mnemon {

template <class Real>
class LossBlock {
 public:
  LossBlock(const ModelConfig& config, const FlatLayout& layout);

  void Reserve(const PassStep<Real>& step);
  void Pack(const PassStep<Real>& step, int worker, int workers);
  // Losses of some rows, with `targets` [B, T]; logits become their gradients.
  void Forward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
               const int32_t* targets);
  void Backward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                RowsOfReal<Real> dx);
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               GradientJobs<Real>& jobs);
  // Over all rows, once all of their Forwards have returned.
  PassLoss Loss() const;

 private:
  const int64_t width_, vocab_;
  NormMap<Real> norm_;
  LinearMap<Real> head_;
  Slab<Real> normed_, dnormed_;  // [rows, D]
  AlignedVector<Real> moments_;
  Slab<Real> logits_;             // [rows, V]
  std::vector<PassLoss> losses_;  // [rows]
};

}  // namespace mnemon
