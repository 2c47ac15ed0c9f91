// SPDX-License-Identifier: MIT
#include "server/engine/scheduler.h"

#include <algorithm>

namespace mnemon {
namespace {

// Takes blocks from `blocks` for growth from `have` to `want` tokens; returns how far
// they reach.
int64_t Grow(const Candidate& candidate, int64_t have, int64_t want, int64_t per_block,
             int64_t& blocks) {
  const auto taken = [&](int64_t tokens) {
    return tokens <= candidate.free_in_block
               ? 0
               : (tokens - candidate.free_in_block + per_block - 1) / per_block;
  };
  const int64_t before = taken(have);
  const int64_t granted = std::min(taken(want) - before, blocks);
  blocks -= granted;
  if (before + granted == taken(want)) return want;
  return candidate.free_in_block + (before + granted) * per_block;
}

}  // namespace

std::vector<Planned> PlanStep(std::span<const Candidate> candidates,
                              int64_t last_served, const StepBudget& budget) {
  const int64_t count = static_cast<int64_t>(candidates.size());
  std::vector<Planned> plan;
  plan.reserve(candidates.size());
  for (int64_t i = 0; i < count; ++i) {
    if (!candidates[i].paused) plan.push_back({.candidate = static_cast<int32_t>(i)});
  }

  int64_t tokens = budget.tokens;
  int64_t blocks = budget.blocks;
  for (const bool prompts : {false, true}) {
    for (Planned& planned : plan) {
      const Candidate& candidate = candidates[planned.candidate];
      if ((candidate.unfed > 1) != prompts) continue;
      planned.tokens = Grow(candidate, 0, 1, budget.block_positions, blocks);
      tokens -= planned.tokens;
    }
  }

  const auto first = std::find_if(plan.begin(), plan.end(), [&](const Planned& p) {
    return p.candidate > last_served;
  });
  std::rotate(plan.begin(), first, plan.end());
  for (Planned& planned : plan) {
    const Candidate& candidate = candidates[planned.candidate];
    if (tokens <= 0) break;
    if (planned.tokens == 0) continue;
    const int64_t want =
        std::min({candidate.unfed, budget.chunk, planned.tokens + tokens});
    const int64_t got =
        Grow(candidate, planned.tokens, want, budget.block_positions, blocks);
    tokens -= got - planned.tokens;
    planned.tokens = got;
  }
  std::sort(plan.begin(), plan.end(), [](const Planned& a, const Planned& b) {
    return a.candidate < b.candidate;
  });
  return plan;
}

}  // namespace mnemon
