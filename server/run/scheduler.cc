// SPDX-License-Identifier: MIT
#include "server/run/scheduler.h"

#include <algorithm>
#include <vector>

namespace mnemon {
namespace {

// What is left of the pool.
struct Blocks {
  int64_t free;        // reserved ones included
  int64_t unreserved;  // of them
};

// Gives `chunk` up to `want` tokens, as far as blocks suffice: its own reserved ones
// first, then unreserved ones.
void Grant(ScheduledChunk& chunk, int64_t want, int64_t block_positions,
           Blocks& blocks) {
  int64_t needed = 0;
  if (want > chunk.free_positions) {
    needed = (want - chunk.free_positions + block_positions - 1) / block_positions;
  }
  const int64_t reserved = std::min({needed, chunk.reserved_blocks, blocks.free});
  const int64_t pool = std::clamp<int64_t>(
      std::min(needed - reserved, blocks.free - reserved), 0, blocks.unreserved);
  blocks.free -= reserved + pool;
  blocks.unreserved -= pool;
  const int64_t fit = chunk.free_positions + (reserved + pool) * block_positions;
  chunk.count = reserved + pool == needed ? want : std::max<int64_t>(0, fit);
  chunk.starved = chunk.count == 0;
}

}  // namespace

void ScheduleStep(std::span<ScheduledChunk> chunks, const StepBudget& budget) {
  int64_t tokens = budget.tokens;
  Blocks blocks{.free = std::max<int64_t>(0, budget.free_blocks),
                .unreserved = std::max<int64_t>(0, budget.unreserved_blocks)};
  std::vector<ScheduledChunk*> prompts;
  for (ScheduledChunk& chunk : chunks) {
    chunk.count = 0;
    chunk.starved = false;
    if (chunk.available > 1) {
      prompts.push_back(&chunk);
      continue;
    }
    Grant(chunk, 1, budget.block_positions, blocks);
    tokens -= chunk.count;
  }
  std::stable_sort(prompts.begin(), prompts.end(), [](const auto* a, const auto* b) {
    return a->prefill_served < b->prefill_served;
  });
  tokens = std::max(tokens, std::min(budget.chunk, budget.tokens));
  for (ScheduledChunk* chunk : prompts) {
    if (tokens <= 0) break;
    Grant(*chunk, std::min({chunk->available, budget.chunk, tokens}),
          budget.block_positions, blocks);
    tokens -= chunk->count;
  }
}

}  // namespace mnemon
