// SPDX-License-Identifier: MIT
// The arena that a model's runner keeps its states in, by the options of the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "model/state/arena.h"
#include "model/state/block_recycler.h"
#include "server/requests/engine_memory.h"
#include "server/requests/engine_model.h"
#include "server/requests/engine_options.h"

namespace mnemon {

// Of one growing block.
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

// Slots follow the calls that run, not the sessions: for each call that may run one for
// it, and one for a call that has computed all and delivers; one for each call that has
// lent its place; and those of tasks. One that was never used costs nothing.
int32_t SlotsFor(const EngineOptions& options);

// An arena whose states stay within state_bytes, in `memory` (null: the host's, of
// which the engine's memory is accounted for). RESOURCE_EXHAUSTED: STATE_BYTES, when
// that does not hold one session; DEVICE_MEMORY, when `memory` has no room for
// state_bytes.
absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(
    const EngineModel& model, const EngineOptions& options, EngineMemory& accounts,
    BlockRecycler& recycler, std::function<void()> on_clean,
    std::shared_ptr<StateMemory> memory);

}  // namespace mnemon
