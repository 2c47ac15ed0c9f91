// SPDX-License-Identifier: MIT
// What executes a step program: the CPU's thread team (cpu_runner.h).
#pragma once

#include <cstdint>

#include "model/program/step_batch.h"
#include "model/state/arena.h"
#include "model/weights/weights.h"

namespace mnemon {

// One thread at a time. Bits do not depend on the runner, nor on the batch beside a
// session's own rows (docs/numerics.md).
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // Room for batches of so many rows whose sessions hold at most so many blocks. May
  // throw std::bad_alloc; within it the other calls take no memory.
  virtual void MakeRoom(int64_t rows, int64_t blocks) = 0;

  // Makes what a reservation of the arena asks for.
  virtual void Make(const BlockCopies& copies) = 0;

  // Computes the batch: writes the state of its rows, which are reserved in the arena,
  // and a row of logits [V] for each of batch.wanted. False: numbers that are not
  // finite, or fast weights' changes of kMostChange, were written to states.
  virtual bool Run(const StepBatch& batch, StateArena& arena, float* logits) = 0;

  // Writes a carry of the sequence form, reached after `position` tokens, whose shapes
  // have been checked, into the reserved rows of a slot. False: not all that was
  // written is finite. May throw std::bad_alloc.
  virtual bool Import(int64_t position, const TensorViews& carry, StateArena& arena,
                      int32_t slot) = 0;
};

}  // namespace mnemon
