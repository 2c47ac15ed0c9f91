// SPDX-License-Identifier: MIT
// Snapshots of sessions and of checkpoints are made and put into the store; the journal
// of the session then names them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "server/durability/session_loader.h"
#include "server/durability/session_snapshots.h"
#include "server/durability/store_context.h"
#include "server/durability/stored_journal.h"
#include "server/sessions/session.h"
#include "server/sessions/stored_session.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use.
class SnapshotSaves {
 public:
  struct Counts {
    int64_t snapshots = 0;
    int64_t bytes = 0;
    int64_t failures = 0;
  };

  // Both outlive it, and what it saves.
  SnapshotSaves(StoreContext& stores, SessionLoader& loader)
      : stores_(stores), loader_(loader) {}

  // Writes a snapshot of the session if there is anything new in it, or the base that
  // it needs. Where a base cannot be made its journal is told. `on_done` is called
  // once it is over, perhaps before this returns. May read the store. Throws
  // std::bad_alloc.
  void Save(const std::shared_ptr<Session>& session,
            const std::function<void()>& on_done);
  // The checkpoint is in the store with the next sync of the session's journal. Where
  // memory has run out `on_saved` is told.
  void SaveCheckpoint(const std::shared_ptr<Session>& session,
                      const SessionCheckpoint& checkpoint, OnSynced on_saved);
  Counts counts() const;

 private:
  // Nullopt: it was not kept; counted.
  std::optional<StoredSnapshot> Put(const EncodedSnapshot& snapshot);
  void KeepSnapshot(StoredJournal& journal, EncodedSnapshot snapshot, uint64_t sequence,
                    bool base);
  void KeepCheckpoint(StoredJournal& journal, const SessionCheckpoint& checkpoint,
                      EncodedSnapshot& snapshot);

  StoreContext& stores_;
  SessionLoader& loader_;

  mutable std::mutex mutex_;
  Counts counts_;  // guarded by mutex_
};

}  // namespace mnemon
