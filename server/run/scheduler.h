// SPDX-License-Identifier: MIT
// The plan of the next step: which calls take part, and with how many tokens; a pure
// function.
#pragma once

#include <cstdint>
#include <span>

#include "server/residency/runner_arena.h"
#include "server/run/scheduled_chunk.h"

namespace mnemon {

struct StepBudget {
  int64_t tokens = 256;        // over all chunks of one step
  int64_t chunk = kMostChunk;  // per call
  // Free blocks of the pool, reserved ones included; and those left after all
  // reservations.
  int64_t free_blocks = 0;
  int64_t unreserved_blocks = 0;
  int64_t block_positions = kBlockPositions;
};

// Sets count and starved of every chunk.
//
// A call with one available token (decoding) always takes part. The rest of the budget,
// at least one chunk, goes to prompts, those first that have been served least (then in
// the order given), so that of prompts that wait together none is ever more than one
// chunk ahead. A chunk is cut short where blocks end; one that gets none is starved.
void ScheduleStep(std::span<ScheduledChunk> chunks, const StepBudget& budget);

}  // namespace mnemon
