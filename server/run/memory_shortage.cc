// SPDX-License-Identifier: MIT
#include "server/run/memory_shortage.h"

#include "server/residency/runner_arena.h"

namespace mnemon {
namespace {

constexpr std::chrono::milliseconds kMemoryOnItsWay{50};
constexpr std::chrono::milliseconds kMemoryPromised{1000};

}  // namespace

bool MemoryShortage::Ask(int64_t blocks, int64_t fixed) {
  Residency& states = scope_.states;
  const StateArena& arena = states.arena();
  if (arena.pools().blocks() == 0) blocks = 0;
  // Where the model's own limit is reached, memory of others does not help.
  const int64_t left =
      arena.pools().blocks() - arena.pools().blocks_used() - states.PromisedBlocks();
  const bool blocks_missing = blocks <= left && states.FreeBlocks(blocks) < blocks;
  const bool missing = blocks_missing || states.FreeFixed(fixed) < fixed;
  if (!missing && blocks > left) return false;
  const int64_t fixed_bytes = arena.spec().bytes_at(0);
  const auto now = std::chrono::steady_clock::now();
  const auto waits = [&](std::optional<Time>& since, Time::duration most) {
    if (!since) since = now;
    if (now - *since <= most) return true;
    since.reset();
    return false;
  };
  // Others may take what was given up first.
  if (missing &&
      scope_.context->AskForMemory(
          blocks * BlockBytes(arena.spec()) + fixed * fixed_bytes, scope_.index)) {
    return waits(promised_since_, kMemoryPromised);
  }
  // It has come just now, or is on its way through the threads of others, where nobody
  // sees it for a while.
  if (!waits(short_since_, kMemoryOnItsWay)) return false;
  scope_.context->recycler.GiveUpReserves();
  return true;
}

}  // namespace mnemon
