// SPDX-License-Identifier: MIT
// How the memory that a server may take is divided, and what fits on its disk.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "model/state/state.h"
#include "server/requests/engine_options.h"

namespace mnemon {

// What --memory is without the flag: 80 % of the memory of the machine, or of the
// smallest limit of the control groups that the process is in.
int64_t DefaultMemory();

// Of `memory`, what is set aside for messages on their way in or out: an eighth, at
// least 64 MiB and at most 512 MiB.
int64_t TransportBytes(int64_t memory);

// What is set aside for the program itself: libraries, threads, scratch memory of
// steps, what the allocator keeps.
inline constexpr int64_t kProcessBytes = int64_t{64} << 20;

// Of `memory`, what the engine may take beside weights of `weights` bytes: what the
// others leave. RESOURCE_EXHAUSTED, MEMORY, field "memory", when that is less than
// `session`, the bytes of the largest session.
absl::StatusOr<int64_t> EngineBytes(int64_t memory, int64_t weights, int64_t session);

// How many sessions of a model fit in each tier, for the log.
struct SessionTiers {
  int64_t running = 0;  // calls that run at once
  // At rest in memory, by the tokens of their histories, which are kept beside the
  // states: one entry where the state's size does not depend on them.
  struct AtRest {
    int64_t tokens = 0;
    int64_t state_bytes = 0;  // blocks in whole
    int64_t session_bytes = 0;
    int64_t sessions = 0;
    // Where states lie in a device's memory, of others whose states lie in the host's.
    int64_t in_host = 0;
  };
  std::vector<AtRest> at_rest;
};

// `vocab`: V; `context`: tokens of the longest history, or none; `engine_bytes`: what
// is left by EngineBytes; `state_on_host`: whether states take of that, too.
SessionTiers PlanTiers(const StateSpec& spec, int64_t vocab,
                       std::optional<int64_t> context, const EngineOptions& options,
                       int64_t engine_bytes, bool state_on_host);

// How many sessions of a model fit in a store, where `free_bytes` are left for it.
struct StoredTier {
  int64_t tokens = 0;         // of each history
  int64_t session_bytes = 0;  // of both snapshots, before compression
  int64_t sessions = 0;
};
StoredTier PlanStore(const StateSpec& spec, std::optional<int64_t> context,
                     const EngineOptions& options, int64_t free_bytes);

}  // namespace mnemon
