// SPDX-License-Identifier: MIT
// The arena that a model's runner keeps its states in, by the options of the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "model/state/arena.h"
#include "server/engine/engine_context.h"
#include "server/engine/engine_model.h"

namespace mnemon {

// Of one growing block.
int64_t BlockBytes(const StateSpec& spec);

// Calls of one model that run at once.
int32_t MostRunning(const EngineOptions& options);

// An arena whose growing state stays within state_bytes, in `memory` (null: the host's,
// of which the engine's memory is accounted for). RESOURCE_EXHAUSTED: STATE_BYTES, when
// that does not hold one session; DEVICE_MEMORY, when `memory` has no room for all that
// sessions may take.
absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(
    const EngineModel& model, const EngineContext& context,
    std::function<void()> on_clean, std::shared_ptr<StateMemory> memory);

}  // namespace mnemon
