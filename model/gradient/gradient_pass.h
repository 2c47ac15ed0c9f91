// SPDX-License-Identifier: MIT
// One pass of a model over a batch, forward and backward, written by hand: what the
// trainer computes with in place of the sequence form and its autograd, which defines
// the same function and is what tests compare it with.
//
// Float follows docs/numerics.md: a row's activations and their gradients depend on its
// own sequence alone, gradients of weights on the number of shards; so a pass has the
// same bits on every instruction set and with any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/partition.h"
#include "model/config/config.h"
#include "model/gradient/flat_layout.h"
#include "model/gradient/product.h"
#include "model/kernels/dropout_mask.h"
#include "model/kernels/thread_pool.h"

namespace mnemon {

// Bumped when the bits of any pass change.
inline constexpr int kPassRevision = 1;

// What sequences leave behind for their continuation, as Carry of model/sequence: an
// entry for each of its carry_spec, none when fresh.
template <class Real>
struct PassCarry {
  int64_t position = 0;
  struct Entry {
    int64_t count = 0;           // n; 1 where the entry does not grow
    AlignedVector<Real> values;  // [B, n, ...]
  };
  std::vector<Entry> entries;
};

struct PassInput {
  int64_t sequences = 0;              // B
  int64_t time = 0;                   // T
  const int32_t* tokens = nullptr;    // [B, T], within the vocabulary
  const int32_t* targets = nullptr;   // [B, T], likewise; -1 does not count
  int64_t shards = 1;                 // at most B
  std::optional<DropoutKey> dropout;  // of training
  bool continues = false;             // what follows needs the carry
};

// Over all positions with a target.
struct PassLoss {
  double nats = 0;      // cross-entropy, summed
  int64_t correct = 0;  // where the target has the largest logit
};

// Used by one thread; computes on those of its pool.
template <class Real>
class GradientPass {
 public:
  virtual ~GradientPass() = default;

  // The loss of `input` after `carry`, which becomes that of the next batch, fresh
  // unless the input says that it is needed. `weights`
  // and `gradients` are flat buffers of the layout. Where `gradients` is not null, all
  // of it becomes the gradient of the summed loss, but for weights that take no part,
  // whose gradient is not written. FAILED_PRECONDITION: beyond the positions of the
  // model. RESOURCE_EXHAUSTED: memory does not suffice.
  virtual absl::StatusOr<PassLoss> Run(const PassInput& input, const Real* weights,
                                       Real* gradients, PassCarry<Real>& carry) = 0;

  // Ranges of the gradients that no Run has written: rows of position tables that no
  // batch has read.
  virtual std::vector<Part> UnusedGradients() const = 0;
};

// The pass of a model; null where its architecture has none. `pool` must outlive it.
template <class Real>
std::unique_ptr<GradientPass<Real>> MakeGradientPass(const ModelConfig& config,
                                                     const FlatLayout& layout,
                                                     ThreadPool& pool);

}  // namespace mnemon
