// SPDX-License-Identifier: MIT
// How the workers of a team divide a step. The bits do not depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/partition.h"
#include "model/program/step_batch.h"
#include "model/program/step_program.h"

namespace mnemon {

// Constant while a step runs.
struct StepPartition {
  enum class Way {
    // All workers compute all rows; each has some groups of heads and some slices of
    // the feed-forward, and holds x itself: they meet twice a layer. For few rows,
    // where each worker has a group.
    kByHead,
    // All workers compute all rows; each has a part of every operation: they meet
    // behind each. For many rows.
    kByOperation,
    // Each worker computes some runs: they do not meet, but each reads all weights. For
    // many rows and small weights.
    kAlone,
  };

  Way way = Way::kByOperation;
  std::vector<Part> runs;  // of the batch, by worker
};

// Most rows that can go by head, of a wave.
inline constexpr int64_t kRowsByHead = 8;
// Workers can go alone when there are more than kRowsByHead rows, on average at least
// this many for each worker, which may pay for reading all weights.
inline constexpr int64_t kRowsAlone = 4;

// Most rows of one worker that goes alone: with more, it would keep the others waiting.
inline int64_t MostRowsAlone(int64_t rows, int64_t workers) {
  return rows * 9 / (8 * workers);
}

// Rows that are computed together: those of a batch, or of its largest wave.
int64_t RowsTogether(const StepBatch& batch, const StepProgram& program);

// The way beside kByOperation that a step can go; kByOperation: there is none.
StepPartition::Way OtherWay(const StepBatch& batch, const StepProgram& program,
                            int64_t workers);

// Sets `partition`, which has runs for each worker of the team, for a way that the step
// can go; takes no memory.
void Divide(const StepBatch& batch, StepPartition::Way way, StepPartition& partition);

}  // namespace mnemon
