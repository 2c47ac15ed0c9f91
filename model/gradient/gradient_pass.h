// SPDX-License-Identifier: MIT
// One pass of a model over a batch, forward and backward, written by hand. The trainer
// uses it instead of the sequence form with autograd, which defines the same function
// and is the reference in tests.
//
// Float follows docs/numerics.md: a row's activations and their gradients depend on its
// own sequence alone, gradients of weights and losses on the number of shards. A pass
// therefore has the same bits on every instruction set and with any number of threads,
// and parts of a batch add up to the bits of the whole.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/partition.h"
#include "model/blocks/pass_input.h"
#include "model/compute/gradient/flat_layout.h"
#include "model/compute/thread_pool.h"
#include "model/description/description.h"

namespace mnemon {

// Incremented when the bits of any pass change.
inline constexpr int kPassRevision = 3;

// Used by one thread; computes on the threads of its pool.
template <class Real>
class GradientPass {
 public:
  virtual ~GradientPass() = default;

  // The loss of `input` after `carry`. `carry` becomes that of the next batch, or fresh
  // unless the input says that it is needed. `weights` is a flat buffer of the layout.
  // If `sums` [sums_size()] is not null, it receives the sums that Finish turns into
  // the gradient of the summed loss, except for weights that take no part, whose sums
  // are not written; sums of the nodes of a batch must be added first, as described in
  // Shards. FAILED_PRECONDITION beyond the positions of the model, RESOURCE_EXHAUSTED
  // without memory.
  virtual absl::StatusOr<PassLoss> Run(const PassInput& input, const Real* weights,
                                       Real* sums, PassCarry<Real>& carry) = 0;

  // The size of the layout plus further sums after it.
  virtual int64_t sums_size() const = 0;
  // Turns the sums of a whole batch into its gradient, in the layout: once, with the
  // weights of the Run.
  virtual void Finish(const Real* weights, Real* sums) const = 0;

  // Ranges of the sums that no Run has written: rows of position tables that no batch
  // has read.
  virtual std::vector<Part> UnusedGradients() const = 0;
};

// The pass of a model that CheckDescription accepts. `pool` must outlive it.
template <class Real>
std::unique_ptr<GradientPass<Real>> MakeGradientPass(const ModelDescription& model,
                                                     const FlatLayout& layout,
                                                     ThreadPool& pool);

}  // namespace mnemon
