// SPDX-License-Identifier: MIT
// What executes a step program: the CPU's thread team (cpu_runner.h) or a device
// (device_runner.h).
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "model/compute/weights.h"
#include "model/program/step_batch.h"
#include "model/sampling/sampling_params.h"
#include "model/state/arena.h"

namespace mnemon {

// One thread at a time. Bits do not depend on the runner, nor on the batch beside a
// session's own rows (docs/numerics.md).
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Batches that can be under way at once. 1: a batch is computed when Submit returns.
  virtual int most_under_way() const = 0;
  // A batch takes no further run when it has so many rows.
  virtual int64_t rows_at_once() const = 0;

  // Room for batches of so many rows on slots of the arena, whose sessions hold at most
  // so many blocks. May throw std::bad_alloc; within it the other calls take no memory.
  virtual void MakeRoom(int64_t rows, int64_t blocks, StateArena& arena) = 0;

  // Makes what a reservation of the arena asks for, for the batches submitted later.
  virtual void Make(const BlockCopies& copies) = 0;

  // Begins to compute a batch: writes the state of its rows, which are reserved in the
  // arena, and a row of logits [V] for each of batch.wanted. Batches are computed in
  // the order of the calls; what they use of arena and logits stays until they are
  // complete. REQUIRES: fewer than most_under_way() are under way.
  virtual void Submit(const StepBatch& batch, StateArena& arena, float* logits) = 0;
  // Waits for the oldest one. `drawn`: the tokens of its runs that draw, in order.
  // False: numbers that are not finite, or fast weights' changes of kMostChange, were
  // written to states. UNAVAILABLE, DEVICE_LOST. After these no batch is under way any
  // more.
  virtual absl::StatusOr<bool> Complete(std::span<int32_t> drawn) = 0;

  // As of Decoder. REQUIRES of what follows: draws().
  virtual bool draws() const { return false; }
  // May throw std::bad_alloc.
  virtual void BeginDraws(int32_t slot, const SamplingParams& params,
                          std::span<const int32_t> window) {}
  virtual void EndDraws(int32_t slot) {}

  // Writes a carry of the sequence form, reached after `position` tokens, whose shapes
  // have been checked, into the reserved rows of a slot. False: not all that was
  // written is finite. UNAVAILABLE, DEVICE_LOST. May throw std::bad_alloc. REQUIRES: no
  // batch is under way.
  virtual absl::StatusOr<bool> Import(int64_t position, const TensorViews& carry,
                                      StateArena& arena, int32_t slot) = 0;
};

}  // namespace mnemon
