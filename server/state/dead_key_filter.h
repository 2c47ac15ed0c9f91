// SPDX-License-Identifier: MIT
// Compaction filters that drop the keys of dead sessions: SessionStore::SetLive says
// which those are and why that is safe. Every filter asks at each key, never before the
// compaction has fixed what it reads.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "rocksdb/compaction_filter.h"
#include "server/state/session_store.h"

namespace mnemon {

// Which sessions live. Safe for concurrent use.
class LiveSessions {
 public:
  using Live = std::function<bool(std::string_view id)>;

  // Null: all live, as before the first call. The one before is not called any more:
  // its owner may go. Waits for a call in progress.
  void Set(Live live);
  // What `live` throws.
  bool Contains(std::string_view id) const;

 private:
  mutable std::mutex mutex_;
  Live live_;  // guarded by mutex_, also while it is called
};

std::shared_ptr<rocksdb::CompactionFilterFactory> MakeDeadKeyFilters(
    StoreTable table, std::shared_ptr<const LiveSessions> live);

}  // namespace mnemon
