// SPDX-License-Identifier: MIT
// Snapshots of sessions and of checkpoints: requested, at once or when a session has
// rested, made one after the other on the thread for snapshots, and put into the store.
// The journal of the session then names them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "server/durability/session_loader.h"
#include "server/durability/session_snapshots.h"
#include "server/durability/store_context.h"
#include "server/durability/store_stats.h"
#include "server/durability/stored_journal.h"
#include "server/sessions/session.h"
#include "server/sessions/stored_session.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use.
class SnapshotSaves {
 public:
  // Both outlive it, and what it saves.
  SnapshotSaves(StoreContext& stores, SessionLoader& loader)
      : stores_(stores), context_(stores.engine), loader_(loader) {}

  // DurableSessions::RequestSnapshot and RequestAtRest.
  void Request(const std::shared_ptr<Session>& session) noexcept;
  void RequestAtRest(const std::shared_ptr<Session>& session) noexcept;
  // The checkpoint is in the store with the next sync of the session's journal. Where
  // memory has run out `on_saved` is told.
  void SaveCheckpoint(const std::shared_ptr<Session>& session,
                      const SessionCheckpoint& checkpoint, OnSynced on_saved);
  // Requests those of all durable sessions in memory. False: not all are made by
  // `deadline`.
  bool SaveAll(std::chrono::steady_clock::time_point deadline);
  // No request is begun any more. Whoever waits for a base is told.
  void Stop();
  // Those of snapshots.
  PersistenceStats stats() const;

 private:
  struct Resting {
    std::shared_ptr<Session> session;
    std::chrono::steady_clock::time_point until;
  };

  // Requests those of sessions that have rested.
  void RequestRested();
  void PostNext() noexcept;
  void StartNext();
  // Writes a snapshot of the session if there is anything new in it, or the base that
  // it needs; then calls OnSaved. Where a base cannot be made its journal is told.
  // Throws std::bad_alloc.
  void Save(const std::shared_ptr<Session>& session);
  void OnSaved();
  // Nullopt: it was not kept; counted.
  std::optional<StoredSnapshot> Put(const EncodedSnapshot& snapshot);
  void KeepSnapshot(StoredJournal& journal, EncodedSnapshot snapshot, uint64_t sequence,
                    bool base);
  void KeepCheckpoint(StoredJournal& journal, const SessionCheckpoint& checkpoint,
                      EncodedSnapshot& snapshot);

  StoreContext& stores_;
  const EngineContext& context_;
  SessionLoader& loader_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable saved_;
  std::deque<std::shared_ptr<Session>> wanted_;
  // Those of RequestAtRest, the longest at rest first, and where each of them is.
  std::list<Resting> resting_;
  std::unordered_map<const Session*, std::list<Resting>::iterator> resting_at_;
  bool rest_ends_ = false;  // RequestRested is due
  bool saving_ = false;
  bool stopping_ = false;
  PersistenceStats stats_;
};

}  // namespace mnemon
