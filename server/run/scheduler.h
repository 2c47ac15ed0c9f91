// SPDX-License-Identifier: MIT
// Which calls take part in the next step, and with how many tokens: a pure function.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "model/decoder/introspection.h"
#include "model/sampling/logprobs.h"
#include "server/residency/runner_arena.h"

namespace mnemon {

struct Call;

// Some tokens of one call in one step, from the plan to the results. Owned by the
// runner's thread.
struct ScheduledChunk {
  // Set by the runner.
  Call* call = nullptr;   // valid while it runs
  int64_t position = 0;   // of the first token == computed tokens of the session
  int64_t available = 0;  // tokens that may be computed now, at least 1
  // Positions it can grow by without another block of the pool (below 0: the first
  // block that it takes gives so many fewer), and blocks that are reserved for it.
  int64_t free_positions = std::numeric_limits<int64_t>::max();
  int64_t reserved_blocks = 0;
  // Prompt tokens computed so far, for taking turns.
  int64_t prefill_served = 0;
  int64_t kept = 0;          // Call::kept()
  bool was_starved = false;  // in the plan before

  // The plan: 0 = not in this step.
  int64_t count = 0;
  bool starved = false;  // because no block is free

  // Set when its step is submitted: tokens or scores that it will give.
  int64_t results = 0;

  // The results. None is set when the step failed as a whole and each call is to be
  // tried alone.
  bool computed = false;
  std::optional<int32_t> token;  // sampled, when the chunk reached the history's end
  std::optional<TokenLogprobs> logprobs;       // of `token`, where wanted
  std::optional<Introspection> introspection;  // likewise
  std::vector<TokenLogprobs> scored;  // by a scoring call, from Scoring::next on
  absl::Status status;                // not OK: this call's own failure
};

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
