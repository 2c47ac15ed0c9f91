// SPDX-License-Identifier: MIT
#include "server/engine/runner_arena.h"

#include <algorithm>
#include <optional>
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

namespace {

// `full`: growing blocks of a full session; `blocks`: those of all sessions, at most.
absl::Status CheckRoom(const EngineModel& model, const EngineOptions& options,
                       int64_t full, int64_t blocks, int64_t free) {
  const StateSpec& spec = model.decoder->spec();
  const int64_t fixed = spec.bytes_at(0), block = BlockBytes(spec);
  const int64_t wanted = options.sessions * fixed + blocks * block;
  if (wanted <= free) return absl::OkStatus();
  const int64_t fit = free / (fixed + full * block);
  return MakeError(absl::StatusCode::kResourceExhausted,
                   StrCat("model '", model.facts.name, "': the states of ",
                          options.sessions, " sessions take up to ", wanted,
                          " bytes, and the device has ", free, " left, enough for ",
                          fit, " full sessions: lower --sessions or --state-bytes"),
                   {.reason = "DEVICE_MEMORY", .field = "state_bytes"});
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateArena>> MakeArena(
    const EngineModel& model, const EngineContext& context,
    std::function<void()> on_clean, std::shared_ptr<StateMemory> memory) {
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
  const bool on_host = memory == nullptr;
  if (const auto free = on_host ? std::nullopt : memory->free_bytes()) {
    MNEMON_RETURN_IF_ERROR(CheckRoom(model, options, one->blocks(), blocks, *free));
  }
  // A call that ended may hold its slot for a moment longer than its session counts.
  return StateArena::Create(spec,
                            {.slots = 2 * options.sessions + 2,
                             .blocks = blocks,
                             .memory = std::move(memory),
                             .recycler = &context.recycler,
                             .account = on_host ? &context.memory->state : nullptr,
                             .on_clean = std::move(on_clean)});
}

}  // namespace mnemon
