// SPDX-License-Identifier: MIT
// Statistics of sessions in a store, since the start.
#pragma once

#include <chrono>
#include <cstdint>

#include "server/store/session_store.h"

namespace mnemon {

struct JournalStats {
  int64_t commits = 0;
  int64_t syncs = 0;
  int64_t entries = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;
  int64_t failures = 0;
  std::chrono::nanoseconds commit_time{};  // of all commits
};

struct PersistenceStats {
  bool healthy = true;  // now: what is durable is taken
  JournalStats journal;
  int64_t snapshots = 0;
  int64_t snapshot_bytes = 0;
  int64_t snapshot_failures = 0;
  int64_t damaged_snapshots = 0;
  int64_t unloaded = 0;  // histories that left memory
  StoreCondition store;
};

}  // namespace mnemon
