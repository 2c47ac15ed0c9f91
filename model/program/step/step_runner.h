// SPDX-License-Identifier: MIT
// Executor of a step program: the CPU's thread team (cpu_runner.h) or a device
// (device_runner.h).
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "model/compute/weights.h"
#include "model/program/step/step_batch.h"
#include "model/sampling/sampling_params.h"
#include "model/state/arena.h"

namespace mnemon {

// Used by one thread at a time. A session's bits depend neither on the runner nor on
// the rest of the batch (docs/numerics.md).
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Most batches under way at once. 1: Submit computes the batch before it returns.
  virtual int most_under_way() const = 0;
  // A batch with this many rows takes no further run.
  virtual int64_t rows_at_once() const = 0;

  // Allocates for batches of `rows` rows on slots of the arena whose sessions hold at
  // most `blocks` blocks. Within these limits the other calls do not allocate. May
  // throw std::bad_alloc.
  virtual void MakeRoom(int64_t rows, int64_t blocks, StateArena& arena) = 0;

  // Makes the copies that a reservation of the arena asks for, before the batches
  // submitted later.
  virtual void Make(const BlockCopies& copies) = 0;

  // Starts to compute a batch: writes the state of its rows, which are reserved in the
  // arena, and a row of logits [V] for each of batch.wanted. Batches are computed in
  // the order of the calls; what they use of arena and logits must stay until they
  // complete. REQUIRES: fewer than most_under_way() are under way.
  virtual void Submit(const StepBatch& batch, StateArena& arena, float* logits) = 0;
  // Waits for the oldest batch. `drawn`: the tokens of its runs that draw, in order.
  // Returns false if numbers that are not finite, or changes of fast weights of
  // kMostChange, were written to states. UNAVAILABLE, DEVICE_LOST. After false or an
  // error no batch is under way.
  virtual absl::StatusOr<bool> Complete(std::span<int32_t> drawn) = 0;

  // See Decoder. The calls below REQUIRE draws().
  virtual bool draws() const { return false; }
  // May throw std::bad_alloc.
  virtual void BeginDraws(int32_t slot, const SamplingParams& params,
                          std::span<const int32_t> window) {}
  virtual void EndDraws(int32_t slot) {}

  // Writes a carry of the sequence form, reached after `position` tokens, into the
  // reserved rows of a slot; its shapes have been checked. Returns false if not all
  // that was written is finite. UNAVAILABLE, DEVICE_LOST. May throw std::bad_alloc.
  // REQUIRES: no batch is under way.
  virtual absl::StatusOr<bool> Import(int64_t position, const TensorViews& carry,
                                      StateArena& arena, int32_t slot) = 0;
};

}  // namespace mnemon
