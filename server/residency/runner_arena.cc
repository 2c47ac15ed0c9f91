// SPDX-License-Identifier: MIT
#include "server/residency/runner_arena.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {

int64_t BlockBytes(const StateSpec& spec) {
  return static_cast<int64_t>(sizeof(float)) * spec.row_elements() * kBlockPositions;
}

int64_t StateCapacity(const StateSpec& spec, const EngineOptions& options) {
  const int64_t fixed = spec.bytes_at(0), block = BlockBytes(spec);
  const int64_t bytes = options.state_bytes;
  if (!spec.growing()) return bytes / fixed * fixed;
  return fixed + std::max<int64_t>(0, bytes - fixed) / block * block;
}

int32_t MostLent(const EngineOptions& options) {
  return std::max(options.running, 512);
}

absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(
    const EngineModel& model, const EngineOptions& options, EngineMemory& accounts,
    BlockRecycler& recycler, std::function<void()> on_clean,
    std::shared_ptr<StateMemory> memory) {
  const StateSpec& spec = model.decoder->spec();
  // This one only counts: memory is taken when a block is used.
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<StateArena> one,
                          StateArena::Create(spec, {.slots = 1}));
  const int64_t full = spec.bytes_at(0) + one->pools().blocks() * BlockBytes(spec);
  if (options.state_bytes < full) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        StrCat("model '", model.facts.name, "': one session's state grows to ", full,
               " bytes, state_bytes is ", options.state_bytes),
        {.reason = "STATE_BYTES", .field = "state_bytes"});
  }
  const int64_t capacity = StateCapacity(spec, options);
  const bool on_host = memory == nullptr;
  const auto free = on_host ? std::nullopt : memory->free_bytes();
  if (free && capacity > *free) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        StrCat("model '", model.facts.name, "': states take up to ", capacity,
               " bytes, and the device has ", *free, " left, enough for ", *free / full,
               " full sessions: lower --state-bytes"),
        {.reason = "DEVICE_MEMORY", .field = "state_bytes"});
  }
  return StateArena::Create(
      spec,
      // Slots follow the calls that run, not the sessions: for each call that may run
      // one, and one for a call that delivers. One that was never used costs nothing.
      {.slots = 2 * options.running + MostLent(options) + kTaskSlots,
       .blocks = spec.growing() ? (capacity - spec.bytes_at(0)) / BlockBytes(spec) : 0,
       .bytes = capacity,
       .memory = std::move(memory),
       .recycler = &recycler,
       .account = on_host ? &accounts.state : nullptr,
       .on_clean = std::move(on_clean)});
}

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
