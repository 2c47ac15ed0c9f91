// SPDX-License-Identifier: MIT
// Statistics of an engine, for health, metrics and tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/durability/store_stats.h"
#include "server/run/model_stats.h"
#include "server/waiting/waiters.h"

namespace mnemon {

// Bytes by purpose, over all models.
struct MemoryStats {
  int64_t weights = 0;
  int64_t state = 0;    // ModelStats::state_bytes
  int64_t shadows = 0;  // ModelStats::shadow_bytes
  // Blocks being cleaned, clean ones that are kept or put aside for prompts, and the
  // rest that does not divide into blocks.
  int64_t state_reserve = 0;
  int64_t images = 0;     // states that were offloaded from a device
  int64_t sessions = 0;   // and checkpoints, but for their tokens
  int64_t histories = 0;  // tokens of sessions, and of prompts that wait for them
  int64_t prompts = 0;    // of calls without a session, and of copies
  int64_t queue = 0;      // parts to score, counts of penalties
  int64_t output = 0;     // tokens that wait for their consumers
  int64_t predictions = 0;
  // All but the weights, in use and at most (EngineOptions::memory_bytes).
  int64_t used = 0;
  int64_t limit = 0;
  // Parts of `limit` for sessions without and with their histories: see MemoryShares.
  int64_t sessions_limit = 0;
  int64_t resting_limit = 0;
};

// The first counts are sums over the models.
struct EngineStats {
  int64_t running = 0;
  int64_t queued = 0;    // ModelStats::waiting
  int64_t sessions = 0;  // named ones, now
  int64_t asleep = 0;    // part of `sessions`: only their names are in memory
  int64_t state_bytes = 0;
  int64_t steps = 0;
  int64_t tokens_computed = 0;
  int64_t tokens_generated = 0;
  bool draining = false;
  MemoryStats memory;
  std::optional<PersistenceStats> store;  // absent without one
  WaiterStats waiters;
  std::vector<ModelStats> models;  // in the order of Create
};

}  // namespace mnemon
