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
  constexpr int32_t kLeast = 512;
  return std::max(options.running, kLeast);
}

int32_t SlotsFor(const EngineOptions& options) {
  return 2 * options.running + MostLent(options) + kTaskSlots;
}

namespace {

// `full`: bytes of a full session.
absl::Status CheckRoom(const EngineModel& model, int64_t full, int64_t capacity,
                       int64_t free) {
  if (capacity <= free) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      StrCat("model '", model.facts.name, "': states take up to ", capacity,
             " bytes, and the device has ", free, " left, enough for ", free / full,
             " full sessions: lower --state-bytes"),
      {.reason = "DEVICE_MEMORY", .field = "state_bytes"});
}

}  // namespace

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
  if (const auto free = on_host ? std::nullopt : memory->free_bytes()) {
    MNEMON_RETURN_IF_ERROR(CheckRoom(model, full, capacity, *free));
  }
  return StateArena::Create(
      spec,
      {.slots = SlotsFor(options),
       .blocks = spec.growing() ? (capacity - spec.bytes_at(0)) / BlockBytes(spec) : 0,
       .bytes = capacity,
       .memory = std::move(memory),
       .recycler = &recycler,
       .account = on_host ? &accounts.state : nullptr,
       .on_clean = std::move(on_clean)});
}

}  // namespace mnemon
