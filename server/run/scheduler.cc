// SPDX-License-Identifier: MIT
#include "server/run/scheduler.h"

#include <algorithm>
#include <vector>

namespace mnemon {
namespace {

// Gives `chunk` up to `want` tokens, as far as the blocks that are `left` suffice: its
// own reserved ones first, then unreserved ones.
void Grant(ScheduledChunk& chunk, int64_t want, StepBudget& left) {
  int64_t needed = 0;
  if (want > chunk.free_positions) {
    needed =
        (want - chunk.free_positions + left.block_positions - 1) / left.block_positions;
  }
  const int64_t reserved = std::min({needed, chunk.reserved_blocks, left.free_blocks});
  const int64_t pool =
      std::clamp<int64_t>(std::min(needed - reserved, left.free_blocks - reserved), 0,
                          left.unreserved_blocks);
  left.free_blocks -= reserved + pool;
  left.unreserved_blocks -= pool;
  const int64_t fit = chunk.free_positions + (reserved + pool) * left.block_positions;
  chunk.count = reserved + pool == needed ? want : std::max<int64_t>(0, fit);
  chunk.starved = chunk.count == 0;
  left.tokens -= chunk.count;
}

}  // namespace

void ScheduleStep(std::span<ScheduledChunk> chunks, const StepBudget& budget) {
  StepBudget left = budget;
  left.free_blocks = std::max<int64_t>(0, budget.free_blocks);
  left.unreserved_blocks = std::max<int64_t>(0, budget.unreserved_blocks);
  std::vector<ScheduledChunk*> prompts;
  for (ScheduledChunk& chunk : chunks) {
    chunk.count = 0;
    chunk.starved = false;
    if (chunk.available > 1) {
      prompts.push_back(&chunk);
    } else {
      Grant(chunk, 1, left);
    }
  }
  std::ranges::stable_sort(prompts, {}, &ScheduledChunk::prefill_served);
  left.tokens = std::max(left.tokens, std::min(budget.chunk, budget.tokens));
  for (ScheduledChunk* chunk : prompts) {
    if (left.tokens <= 0) break;
    Grant(*chunk, std::min({chunk->available, budget.chunk, left.tokens}), left);
  }
}

}  // namespace mnemon
