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

  void Set(Live live);
  // Null before Set.
  std::shared_ptr<const Live> get() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Live> live_;  // guarded by mutex_; shared with compactions
};

std::shared_ptr<rocksdb::CompactionFilterFactory> MakeDeadKeyFilters(
    StoreTable table, std::shared_ptr<const LiveSessions> live);

}  // namespace mnemon
