// SPDX-License-Identifier: MIT
// Sessions in a store: their way there and back, by the parts that it owns.
//
// In the store a session is its record (stored_session.h), the entries of its journal
// (journal_entry.h), whose sum is its history, and the histories of its checkpoints.
// Snapshots (server/snapshots/snapshot.h) hold states alone: one that is damaged or
// missing is computed again, with the same bits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/durability/history_sweeps.h"
#include "server/durability/journal_writer.h"
#include "server/durability/session_loader.h"
#include "server/durability/session_recovery.h"
#include "server/durability/snapshot_requests.h"
#include "server/durability/snapshot_saves.h"
#include "server/durability/store_context.h"
#include "server/durability/store_stats.h"
#include "server/durability/stored_histories.h"
#include "server/durability/unusable_sessions.h"
#include "server/requests/engine_model.h"
#include "server/run/durable_sessions.h"
#include "server/run/engine_context.h"
#include "server/run/model_runner.h"
#include "server/sessions/session.h"
#include "server/store/session_store.h"

namespace mnemon {

// Safe for concurrent use.
class SessionPersistence final : public DurableSessions {
 public:
  // `context` and `store` outlive it. `models` in the order of the engine. Throws
  // std::system_error when there is no thread.
  SessionPersistence(const EngineContext& context, SessionStore& store,
                     const std::vector<EngineModel>& models);
  ~SessionPersistence();

  // Before anything else but construction: null for a predictor.
  void SetRunners(std::vector<std::shared_ptr<ModelRunner>> runners) {
    stores_.runners = std::move(runners);
  }
  // SessionRecovery::Recover.
  absl::StatusOr<Recovery> Recover() { return recovery_.Recover(); }

  // A session that no directory knows yet gets its journal. `has_history`: the store
  // needs a base of it.
  void Adopt(const std::shared_ptr<Session>& session, Durability durability,
             bool has_history);
  // OK, or why a durable session cannot be made.
  absl::Status status() const { return writer_.status(); }
  // Why a session with this id is not in the directory but cannot be made either;
  // OK: nothing is against it.
  absl::Status CheckId(const std::string& id) const { return unusable_.Check(id); }

  void RequestSnapshot(const std::shared_ptr<Session>& session) noexcept override {
    requests_.Request(session);
  }
  void RequestAtRest(const std::shared_ptr<Session>& session) noexcept override {
    requests_.RequestAtRest(session);
  }
  // Snapshots of all that have changed; waits for them until `deadline`. False: not all
  // are written.
  bool SaveAll(std::chrono::steady_clock::time_point deadline);
  // After a change of its durability: what the store needs of the session and has not,
  // its checkpoints and RequestSnapshot. REQUIRES: their histories are in memory.
  void StoreAnew(const std::shared_ptr<Session>& session) noexcept;
  // SnapshotSaves::SaveCheckpoint.
  void SaveCheckpoint(const std::shared_ptr<Session>& session,
                      const SessionCheckpoint& checkpoint, OnSynced on_saved) {
    saves_.SaveCheckpoint(session, checkpoint, std::move(on_saved));
  }
  void Settle(const std::shared_ptr<Session>& session, WaiterKind kind,
              SessionBefore before, OnSynced on_settled) override;
  // Removes a session that has left the directory from the store.
  void Delete(const Session& session, OnSynced on_done);

  // UnusableSessions::GiveUp.
  bool GiveUp(const std::string& id, const absl::Status& damage) {
    return unusable_.GiveUp(id, damage);
  }
  // Removes a session from the store that CheckId says is damaged.
  void DeleteDamaged(const std::string& id, OnSynced on_done);

  // Those of SessionLoader.
  absl::StatusOr<std::shared_ptr<Session>> Use(
      const std::shared_ptr<Session>& session) {
    return loader_.Use(session);
  }
  absl::StatusOr<std::shared_ptr<Session>> UseWithCheckpoints(
      const std::shared_ptr<Session>& session) {
    return loader_.UseWithCheckpoints(session);
  }
  absl::Status LoadCheckpoint(const Session& owner,
                              const SessionCheckpoint& checkpoint) {
    return loader_.LoadCheckpoint(owner, checkpoint);
  }
  bool CanRestore(const Session& session) const { return loader_.CanRestore(session); }
  void Restore(const std::shared_ptr<Session>& session, std::function<void()> next) {
    loader_.Restore(session, std::move(next));
  }
  void Restore(const Session& owner, const SessionCheckpoint& checkpoint,
               std::function<void()> next) {
    loader_.Restore(owner, checkpoint, std::move(next));
  }

  // Those of HistorySweeps.
  bool GiveUpHistories(int64_t bytes) override {
    return sweeps_.GiveUpHistories(bytes);
  }
  void KeepMemoryFree() noexcept override { sweeps_.KeepMemoryFree(); }
  using Short = HistorySweeps::Short;
  bool MakeRoom(int64_t bytes, Short of, const std::function<bool()>& fits) {
    return sweeps_.MakeRoom(bytes, of, fits);
  }

  // No snapshot is begun any more, and nothing is read from the store.
  void Stop();
  // What is queued for the store is written.
  void StopWriting() { writer_.Stop(); }

  PersistenceStats stats() const;

 private:
  std::string RecordOf(const Session& session) const;
  void OnLost(const std::shared_ptr<Session>& session, const absl::Status& status);
  void OnDeleted(const std::shared_ptr<Session>& session);

  const EngineContext& context_;
  StoreContext stores_;
  UnusableSessions unusable_;
  StoredHistories histories_;
  HistorySweeps sweeps_;
  SessionLoader loader_;
  SnapshotSaves saves_;
  SnapshotRequests requests_;
  SessionRecovery recovery_;
  JournalWriter writer_;  // last: its thread uses the others
};

}  // namespace mnemon
