// SPDX-License-Identifier: MIT
// How the workers of a team divide a step. The bits do not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/partition.h"
#include "model/program/step/step_batch.h"
#include "model/program/step/step_program.h"

namespace mnemon {

// Constant while a step runs.
struct StepPartition {
  enum class Way {
    // All workers compute all rows; each has some groups of heads and some slices of
    // the feed-forward, and its own copy of x. They synchronise twice per layer. For
    // few rows, if each worker has a group.
    kByHead,
    // All workers compute all rows; each has a part of every operation. They
    // synchronise after each operation. For many rows.
    kByOperation,
    // Each worker computes some runs. They do not synchronise, but each reads all
    // weights. For many rows and small weights.
    kAlone,
  };

  Way way = Way::kByOperation;
  std::vector<Part> runs;  // runs of the batch, by worker
};

// Most rows of a wave for kByHead.
inline constexpr int64_t kRowsByHead = 8;
// kAlone needs more than kRowsByHead rows and, on average, at least this many rows per
// worker to pay for reading all weights.
inline constexpr int64_t kRowsAlone = 4;

// Most rows of one worker with kAlone: more would keep the others waiting.
inline int64_t MostRowsAlone(int64_t rows, int64_t workers) {
  return rows * 9 / (8 * workers);
}

// Rows that are computed together: those of the batch, or of its largest wave.
int64_t RowsTogether(const StepBatch& batch, const StepProgram& program);

// The alternative to kByOperation for a step, or kByOperation if there is none.
StepPartition::Way OtherWay(const StepBatch& batch, const StepProgram& program,
                            int64_t workers);

// Sets `partition` for a way that the step can go; it has runs for each worker of the
// team. Does not allocate.
void Divide(const StepBatch& batch, StepPartition::Way way, StepPartition& partition);

}  // namespace mnemon
