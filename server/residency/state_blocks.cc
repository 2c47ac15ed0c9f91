// SPDX-License-Identifier: MIT
#include "server/residency/state_blocks.h"

#include <algorithm>

#include "server/residency/runner_arena.h"

namespace mnemon {

int64_t BlocksHeld(const StateArena& arena, const ResidentState& state) {
  if (!arena.spec().growing() || !state.state.has_state()) return 0;
  return (state.state.bytes(arena) - arena.spec().bytes_at(0)) /
         BlockBytes(arena.spec());
}

int64_t BlocksFor(const StateArena& arena, const ResidentState& state, int64_t tokens) {
  if (!arena.spec().growing()) return 0;
  int64_t blocks = arena.BlocksNeeded(state.state.slot(), tokens);
  if (arena.spec().growth() == Growth::kRing) {
    // Its oldest blocks come back on the way.
    const int64_t rows = arena.spec().capacity() + 2 * kMostChunk;
    const int64_t most = (rows + kBlockPositions - 1) / kBlockPositions + 1;
    blocks = std::min(blocks, std::max<int64_t>(0, most - BlocksHeld(arena, state)));
  }
  return blocks;
}

int64_t BlocksPromised(const StateArena& arena, const ResidentState& state) {
  // Most calls generate, and have none.
  if (state.reserved_blocks == 0) return 0;
  return std::max<int64_t>(0, state.reserved_blocks - BlocksHeld(arena, state));
}

bool CopiesLastBlock(const StateArena& arena, const ResidentState& state) {
  // A block that is partly filled has room for a row.
  return state.state.computed(arena) % kBlockPositions != 0 &&
         arena.BlocksNeeded(state.state.slot(), 1) > 0;
}

}  // namespace mnemon
