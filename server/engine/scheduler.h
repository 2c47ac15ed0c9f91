// SPDX-License-Identifier: MIT
// Which sessions step next, and with how many tokens: a pure function.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace mnemon {

// One running session as the scheduler sees it.
struct Candidate {
  int64_t unfed = 0;    // tokens of its history it may be fed now, at least 1
  bool paused = false;  // its reader is behind, or it has nothing to feed
  // Positions it can grow by without another block.
  int64_t free_in_block = std::numeric_limits<int64_t>::max();
};

struct StepBudget {
  int64_t tokens = 256;  // over all sessions of one step
  int64_t chunk = 64;    // per session
  int64_t blocks = 0;    // free in the pool
  int64_t block_positions = 16;
};

struct Planned {
  int32_t candidate = 0;  // index into the candidates
  int64_t tokens = 0;     // 1 .. chunk; 0: it needs a block and there is none
};

// Every session that is not paused gets at least one token (decoding never waits for a
// prompt), the rest of the budget goes to prompts in order, starting after
// `last_served`, so that long prompts take turns. Blocks go to decoding sessions first;
// a prompt is cut short where they end. Result in the order of candidates.
std::vector<Planned> PlanStep(std::span<const Candidate> candidates,
                              int64_t last_served, const StepBudget& budget);

}  // namespace mnemon
