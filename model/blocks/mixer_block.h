// SPDX-License-Identifier: MIT
// The sub-layer of a layer that looks at other positions, in training: attention or
// fast weights, with the residual around it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "model/blocks/pass_step.h"

namespace mnemon {

template <class Real>
class MixerBlock {
 public:
  using CarryEntry = typename PassCarry<Real>::Entry;

  virtual ~MixerBlock() = default;

  // FAILED_PRECONDITION: the batch, `position` tokens on, is beyond the positions of
  // the model.
  virtual absl::Status Check(const PassStep<Real>& step, int64_t position) const = 0;
  // Entries of a carry that belong to the layer.
  virtual int64_t carry_entries() const = 0;

  // Makes room; `carry`, none where fresh, must live until Continue has
  // returned.
  // May throw std::bad_alloc.
  virtual void Reserve(const PassStep<Real>& step,
                       std::span<const CarryEntry> carry) = 0;
  // Takes over the weights: part `worker` of `workers`.
  virtual void Pack(const PassStep<Real>& step, int worker, int workers) = 0;

  // Forward and backward have three phases each. One begins for some sequences only
  // when the one before has ended for all of them. Several threads may cut a phase into
  // parts of rows as of PassStep, of rows b M + j of the memory, or of groups b G + g
  // of heads that share keys and values.

  // M, the rows of memory of each sequence that are projected with the batch.
  virtual int64_t projected_memory() const { return 0; }
  // Queries, keys, values.
  virtual void Project(const PassStep<Real>& step, Part rows, Part memory,
                       RowsOfReal<const Real> x) = 0;
  // What each position finds at the others.
  virtual void Mix(const PassStep<Real>& step, Part groups,
                   PassScratch<Real>& scratch) = 0;
  // As of SubLayerEnd, of what was mixed.
  virtual void Finish(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> x,
                      RowsOfReal<Real> out, PassScratch<Real>& scratch) = 0;

  virtual void FinishBackward(const PassStep<Real>& step, Part rows,
                              RowsOfReal<const Real> dout,
                              PassScratch<Real>& scratch) = 0;
  virtual void MixBackward(const PassStep<Real>& step, Part groups,
                           PassScratch<Real>& scratch) = 0;
  virtual void ProjectBackward(const PassStep<Real>& step, Part rows,
                               RowsOfReal<const Real> x, RowsOfReal<const Real> dout,
                               RowsOfReal<Real> dx) = 0;

  // Sums that it needs beside those of its weights' gradients, and where they begin.
  virtual int64_t more_sums() const { return 0; }
  virtual void PlaceSums(int64_t) {}
  // The sums, once all sequences went backward.
  virtual void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
                       RowsOfReal<const Real> dout, GradientJobs<Real>& jobs) = 0;
  // As GradientPass::Finish.
  virtual void FinishSums(const Real*, Real*) const {}
  // As GradientPass::UnusedGradients.
  virtual std::vector<Part> UnusedGradients() const { return {}; }
  // The layer's entries of the carry behind the batch.
  virtual std::vector<CarryEntry> Continue(const PassStep<Real>& step,
                                           RowsOfReal<const Real> x) = 0;
};

}  // namespace mnemon
