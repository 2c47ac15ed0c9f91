// SPDX-License-Identifier: MIT
// The parts of a server's memory, and how many sessions fit in it and on its disk.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "model/state/state.h"
#include "server/requests/engine_options.h"

namespace mnemon {

// The default of --memory: 80 % of the memory of the machine, or of the smallest limit
// of the process's control groups.
int64_t DefaultMemory();

// The part of `memory` for messages in transit: an eighth, 64 to 512 MiB.
int64_t TransportBytes(int64_t memory);

// The part for the program itself: libraries, threads, scratch memory of steps, what
// the allocator keeps.
inline constexpr int64_t kProcessBytes = int64_t{64} << 20;

// What weights and the parts above leave of `memory` to the engine. RESOURCE_EXHAUSTED,
// MEMORY, field "memory", if that is less than `session`, the bytes of the largest
// session.
absl::StatusOr<int64_t> EngineBytes(int64_t memory, int64_t weights, int64_t session);

// How many sessions of a model fit in each tier, for the log.
struct SessionTiers {
  int64_t running = 0;  // calls that run at once
  // Sessions at rest in memory, whose histories have `tokens` tokens. Histories are
  // kept beside states.
  struct AtRest {
    int64_t tokens = 0;
    int64_t state_bytes = 0;  // whole blocks
    int64_t session_bytes = 0;
    int64_t sessions = 0;
    int64_t in_host = 0;  // further ones, if states are in a device's memory
  };
  std::vector<AtRest> at_rest;  // one entry unless the state's size depends on tokens
};

// `vocab`: V; `context`: tokens of the longest history; `engine_bytes`: see
// EngineBytes; `state_on_host`: states take part of these.
SessionTiers PlanTiers(const StateSpec& spec, int64_t vocab,
                       std::optional<int64_t> context, const EngineOptions& options,
                       int64_t engine_bytes, bool state_on_host);

// How many sessions of a model fit in a store with `free_bytes` left.
struct StoredTier {
  int64_t tokens = 0;         // of each history
  int64_t session_bytes = 0;  // both snapshots, before compression
  int64_t sessions = 0;
};
StoredTier PlanStore(const StateSpec& spec, std::optional<int64_t> context,
                     const EngineOptions& options, int64_t free_bytes);

}  // namespace mnemon
