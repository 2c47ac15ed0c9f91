// SPDX-License-Identifier: MIT
// The end of a model in training: from the last layer's output to logits and the
// cross-entropy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/blocks/ends/settings.h"
#include "model/blocks/pass_step.h"
#include "model/compute/gradient/flat_layout.h"

namespace mnemon {

template <class Real>
class LossBlock {
 public:
  virtual ~LossBlock() = default;

  // Makes room. May throw std::bad_alloc.
  virtual void Reserve(const PassStep<Real>& step) = 0;
  // Packs the weights: part `worker` of `workers`.
  virtual void Pack(const PassStep<Real>& step, int worker, int workers) = 0;
  // Computes losses of some rows for `targets` [B, T]; logits become their gradients.
  virtual void Forward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                       const int32_t* targets, PassScratch<Real>& scratch) = 0;
  virtual void Backward(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                        RowsOfReal<Real> dx, PassScratch<Real>& scratch) = 0;
  // Adds jobs for the gradients of its weights. REQUIRES: all rows went backward.
  virtual void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
                       GradientJobs<Real>& jobs) = 0;
  // The loss over all rows. REQUIRES: all their Forwards have returned. Rows of a shard
  // are added in order, shards in their tree.
  PassLoss Loss(const PassStep<Real>& step) const;

 protected:
  void ReserveLosses(int64_t rows) { losses_.resize(static_cast<size_t>(rows)); }
  // Loss of a row; its logits become their gradient.
  void ComputeLoss(int64_t row, int32_t target, int64_t vocab, Real* logits) {
    losses_[row] = {};
    if (target < 0) {
      std::fill_n(logits, vocab, Real{0});
      return;
    }
    bool best = false;
    losses_[row].nats = CrossEntropy(vocab, target, logits, &best);
    losses_[row].correct = best ? 1 : 0;
  }

 private:
  std::vector<PassLoss> losses_;  // [rows]
};

// Head of a language model, see settings.h. D = `width`, V = `vocab`.
template <class Real>
std::unique_ptr<LossBlock<Real>> MakeLanguageLoss(const Head& head, int64_t width,
                                                  int64_t vocab,
                                                  const FlatLayout& layout);
// Head of a classifier: logits = LN_V(W_b drop(act(LN(W_a x + b_a))) + b_b), LN_V with
// norm_logits.
template <class Real>
std::unique_ptr<LossBlock<Real>> MakeClassifierLoss(const Head& head, int64_t width,
                                                    int64_t vocab,
                                                    const FlatLayout& layout);

}  // namespace mnemon
