// SPDX-License-Identifier: MIT
// Sessions in a store: their way there and back, by the parts that it owns.
//
// In the store a session is its record (stored_session.h), the entries of its journal
// (journal_entry.h), whose sum is its history, and the histories of its checkpoints.
// A state in a snapshot that is damaged or missing is computed again, with the same
// bits.
#pragma once

#include <chrono>
#include <cstdint>
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
#include "server/durability/snapshot_saves.h"
#include "server/durability/store_context.h"
#include "server/durability/store_stats.h"
#include "server/durability/unusable_sessions.h"
#include "server/requests/request.h"
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

  // SessionRecovery::Recover, before anything else. `runners`: null for a predictor.
  absl::StatusOr<Recovery> Recover(std::vector<std::shared_ptr<ModelRunner>> runners) {
    stores_.runners = std::move(runners);
    return recovery_.Recover();
  }

  // Gives a session that no directory knows yet its journal. `has_history`: the store
  // needs a base of it.
  void Adopt(const std::shared_ptr<Session>& session, Durability durability,
             bool has_history);
  // OK, or why a durable session cannot be made.
  absl::Status status() const { return writer_.status(); }

  // Its parts.
  UnusableSessions& unusable() { return unusable_; }
  HistorySweeps& sweeps() { return sweeps_; }
  SessionLoader& loader() { return loader_; }
  SnapshotSaves& saves() { return saves_; }

  void RequestSnapshot(const std::shared_ptr<Session>& session) noexcept override {
    saves_.Request(session);
  }
  void RequestAtRest(const std::shared_ptr<Session>& session) noexcept override {
    saves_.RequestAtRest(session);
  }
  // Writes snapshots of all that have changed. False: not all, by `deadline`.
  bool SaveAll(std::chrono::steady_clock::time_point deadline);
  // Writes what the store lacks after a change of the durability: checkpoints, and a
  // snapshot. REQUIRES: their histories are in memory.
  void StoreAnew(const std::shared_ptr<Session>& session) noexcept;
  void Settle(const std::shared_ptr<Session>& session, WaiterKind kind,
              SessionBefore before, OnSynced on_settled) override;
  // Removes a session that is damaged from the store.
  void DeleteDamaged(const std::string& id, OnSynced on_done);

  bool GiveUpHistories(int64_t bytes) override {
    return sweeps_.GiveUpHistories(bytes);
  }
  void KeepMemoryFree() noexcept override { sweeps_.KeepMemoryFree(); }
  using Short = HistorySweeps::Short;

  // No snapshot is begun any more, and nothing is read from the store.
  void Stop();
  // What is queued for the store is written.
  void StopWriting() { writer_.Stop(); }

  PersistenceStats stats() const;

 private:
  std::string RecordOf(const Session& session) const;
  JournalWriter::Hooks WriterHooks();

  StoreContext stores_;
  UnusableSessions unusable_;
  HistorySweeps sweeps_;
  SessionLoader loader_;
  SnapshotSaves saves_;
  SessionRecovery recovery_;
  JournalWriter writer_;  // last: its thread uses the others
};

}  // namespace mnemon
