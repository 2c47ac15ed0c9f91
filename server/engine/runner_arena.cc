// SPDX-License-Identifier: MIT
#include "server/engine/runner_arena.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/scheduler.h"

namespace mnemon {

int64_t BlockBytes(const StateSpec& spec) {
  return static_cast<int64_t>(sizeof(float)) * spec.row_elements() *
         StepBudget{}.block_positions;
}

int32_t MostRunning(const EngineOptions& options) {
  return options.running > 0 ? options.running : std::min(options.sessions, 256);
}

absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(const EngineModel& model,
                                                      const EngineContext& context,
                                                      std::function<void()> on_clean,
                                                      StateMemory* memory) {
  const StateSpec& spec = model.decoder->spec();
  const EngineOptions& options = context.options;
  // These only count: memory is taken when a block is used.
  MNEMON_ASSIGN_OR_RETURN(const std::unique_ptr<StateArena> one,
                          StateArena::Create(spec, {.slots = 1}));
  MNEMON_ASSIGN_OR_RETURN(
      const std::unique_ptr<StateArena> all,
      StateArena::Create(
          spec, {.slots = options.sessions, .saved_states = MostRunning(options)}));
  int64_t blocks = all->blocks();
  if (spec.growing()) {
    const int64_t fit = options.state_bytes / BlockBytes(spec);
    if (fit < one->blocks()) {
      return MakeError(
          absl::StatusCode::kResourceExhausted,
          StrCat("model '", model.facts.name, "': one session's state grows to ",
                 one->blocks() * BlockBytes(spec), " bytes, state_bytes is ",
                 options.state_bytes),
          {.reason = "STATE_BYTES", .field = "state_bytes"});
    }
    blocks = std::min(blocks, fit);
  }
  // A call that ended may hold its slot for a moment longer than its session counts.
  return StateArena::Create(spec, {.slots = 2 * options.sessions + 2,
                                   .blocks = blocks,
                                   .memory = memory,
                                   .recycler = &context.recycler,
                                   .account = &context.memory->state,
                                   .on_clean = std::move(on_clean)});
}

}  // namespace mnemon
