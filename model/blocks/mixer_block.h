// SPDX-License-Identifier: MIT
// The sub-layer that mixes positions, in training: attention or fast weights, with the
// residual around it.
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

  // FAILED_PRECONDITION if the batch, starting at `position`, exceeds the positions of
  // the model.
  virtual absl::Status Check(const PassStep<Real>& step, int64_t position) const = 0;
  // Number of entries of a carry that belong to the layer.
  virtual int64_t carry_entries() const = 0;

  // Allocates. `carry`, absent if fresh, must live until Continue has returned. May
  // throw std::bad_alloc.
  virtual void Reserve(const PassStep<Real>& step,
                       std::span<const CarryEntry> carry) = 0;
  // Packs the weights: part `worker` of `workers`.
  virtual void Pack(const PassStep<Real>& step, int worker, int workers) = 0;

  // Forward and backward have three phases each. A phase begins for some sequences when
  // the one before has ended for all of them. Several threads may divide a phase by
  // rows (see PassStep), by rows b M + j of the memory, or by groups b G + g of heads
  // that share keys and values.

  // M, the rows of memory of each sequence that are projected with the batch.
  virtual int64_t projected_memory() const { return 0; }
  // Computes queries, keys and values.
  virtual void Project(const PassStep<Real>& step, Part rows, Part memory,
                       RowsOfReal<const Real> x) = 0;
  // Computes what each position reads from the others.
  virtual void Mix(const PassStep<Real>& step, Part groups,
                   PassScratch<Real>& scratch) = 0;
  // See SubLayerEnd; applied to the result of Mix.
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

  // Number of sums needed beside the gradients of its weights, and their offset.
  virtual int64_t more_sums() const { return 0; }
  virtual void PlaceSums(int64_t) {}
  // Adds jobs for the sums. REQUIRES: all sequences went backward.
  virtual void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
                       RowsOfReal<const Real> dout, GradientJobs<Real>& jobs) = 0;
  // See GradientPass::Finish.
  virtual void FinishSums(const Real*, Real*) const {}
  // See GradientPass::UnusedGradients.
  virtual std::vector<Part> UnusedGradients() const { return {}; }
  // The layer's entries of the carry after the batch.
  virtual std::vector<CarryEntry> Continue(const PassStep<Real>& step,
                                           RowsOfReal<const Real> x) = 0;
};

}  // namespace mnemon
