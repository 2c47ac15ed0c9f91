// SPDX-License-Identifier: MIT
// The arena that a model's runner keeps its states in, by the options of the engine,
// and the blocks of it that one state has and needs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "model/state/arena.h"
#include "model/state/block_recycler.h"
#include "server/requests/engine_memory.h"
#include "server/requests/engine_options.h"
#include "server/requests/request.h"
#include "server/residency/resident_state.h"

namespace mnemon {

// Bytes of one growing block.
int64_t BlockBytes(const StateSpec& spec);

// Bytes that states within state_bytes take at most: whole blocks, and fixed entries.
int64_t StateCapacity(const StateSpec& spec, const EngineOptions& options);

// Tokens of one call that a step computes at most.
inline constexpr int64_t kMostChunk = 64;

// Slots that tasks between steps need for a moment.
inline constexpr int32_t kTaskSlots = 1;

// Calls that others may run in place of while their callers are stalled: callers that
// do not read, even many, keep no others out before they end.
int32_t MostLent(const EngineOptions& options);

// An arena whose states stay within state_bytes, in `memory` (null: the host's, of
// which the engine's memory is accounted for). RESOURCE_EXHAUSTED: STATE_BYTES, when
// that does not hold one session; DEVICE_MEMORY, when `memory` has no room for
// state_bytes.
absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(
    const EngineModel& model, const EngineOptions& options, EngineMemory& accounts,
    BlockRecycler& recycler, std::function<void()> on_clean,
    std::shared_ptr<StateMemory> memory);

// Growing blocks that the state holds.
int64_t BlocksHeld(const StateArena& arena, const ResidentState& state);
// Blocks that so many tokens more take at most. REQUIRES: the state has a slot.
int64_t BlocksFor(const StateArena& arena, const ResidentState& state, int64_t tokens);
// Blocks that the state may take without asking, beside those that it has.
int64_t BlocksPromised(const StateArena& arena, const ResidentState& state);
// Whether the next token that is computed needs a copy of the last block. REQUIRES: the
// state has a slot.
bool CopiesLastBlock(const StateArena& arena, const ResidentState& state);

}  // namespace mnemon
