// SPDX-License-Identifier: MIT
#include "server/durability/session_persistence.h"

#include <optional>

#include "base/out_of_memory.h"
#include "server/durability/stored_journal.h"
#include "server/requests/engine_errors.h"
#include "server/sessions/stored_session.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {

SessionPersistence::SessionPersistence(const EngineContext& context,
                                       SessionStore& store,
                                       const std::vector<EngineModel>& models)
    : stores_(context, store, models),
      unusable_(context.directory, ChargeOf(context.memory, &EngineMemory::unusable)),
      sweeps_(stores_),
      loader_(stores_, sweeps_),
      saves_(stores_, loader_),
      recovery_(stores_, writer_, unusable_, sweeps_),
      writer_(store, context.callbacks, context.waiters, WriterHooks()) {}

JournalWriter::Hooks SessionPersistence::WriterHooks() {
  return {
      .record = [this](const Session& session) { return RecordOf(session); },
      .lost =
          [this](const auto& session, const absl::Status& status) {
            if (stores_.runners.empty()) return;
            stores_.runners[session->model]->Do(MakeEndCallTask(session, status));
          },
      .needs_base = [this](const auto& session) { StoreAnew(session); },
      .deleted =
          [this](const auto& session) {
            if (!stores_.engine.directory.Retire(session) || stores_.runners.empty())
              return;
            stores_.runners[session->model]->Forget(session);
          }};
}

void SessionPersistence::Adopt(const std::shared_ptr<Session>& session,
                               Durability durability, bool has_history) {
  session->journal = std::make_shared<StoredJournal>(
      writer_, session->id, session, durability, StoredJournal::Stored{}, has_history);
  session->history.SetObserver(session->journal.get());
}

void SessionPersistence::DeleteDamaged(const std::string& id, OnSynced on_done) {
  // The journal of a session that nobody has. Its snapshots go with the next start.
  const auto journal = std::make_shared<StoredJournal>(
      writer_, id, std::weak_ptr<Session>(), Durability::kTurn, StoredJournal::Stored{},
      /*needs_base=*/false);
  journal->TryDelete(std::nullopt, [this, id, on_done](const absl::Status& status) {
    if (status.ok()) unusable_.Free(id);
    on_done(status);
  });
}

std::string SessionPersistence::RecordOf(const Session& session) const {
  const ModelFacts& model = stores_.models[session.model].facts;
  const StoredJournal::Stored kept = JournalOf(session).stored();
  StoredSession stored;
  stored.model = model.name;
  stored.model_id = model.model_id;
  stored.durability = session.journal->durability();
  stored.create_time = session.create_time;
  stored.sequence = kept.sequence;
  stored.rebuilt = session.rebuilt;
  stored.parent = session.parent;
  stored.request_id = session.request_id;
  stored.request_text = session.request_text;
  stored.drawn_id = session.drawn_id;
  stored.snapshots = kept.snapshots;
  stored.checkpoints = kept.checkpoints;
  stores_.engine.directory.Describe(session, stored);
  // 0: never.
  const auto expiry = stored.expiry().value_or(std::chrono::system_clock::time_point());
  const auto unix_time =
      std::chrono::duration_cast<std::chrono::milliseconds>(expiry.time_since_epoch());
  return RecordExpiry(unix_time.count()) + FormatStoredSession(stored);
}

void SessionPersistence::Settle(const std::shared_ptr<Session>& session,
                                WaiterKind kind, SessionBefore before,
                                OnSynced on_settled) {
  ModelRunner& runner = *stores_.runners[session->model];
  const auto settle = [this, session, &runner, before = std::move(before),
                       on_settled](const absl::Status& status) {
    const auto release = [this, session, on_settled](const absl::Status& outcome) {
      stores_.engine.directory.calls().Release(*session, /*taken=*/false);
      on_settled(outcome);
    };
    OnAnswer<bool> taken_back;
    const absl::Status begun = CatchOutOfMemory({}, [&] {
      if (!status.ok()) {
        taken_back = [release, status](const absl::StatusOr<bool>&) {
          release(status);
        };
        runner.Do(MakeTakeBackTask(session, before, taken_back));
      } else if (before.copy) {
        runner.Do(MakeUnpinTask(before.copy));
      }
      return absl::OkStatus();
    });
    if (!taken_back) return release(status);
    if (!begun.ok()) taken_back(begun);
  };
  session->journal->Flush(kind, settle);
}

bool SessionPersistence::SaveAll(std::chrono::steady_clock::time_point deadline) {
  const bool saved = saves_.SaveAll(deadline);
  return writer_.WaitIdle(deadline) && saved;
}

void SessionPersistence::StoreAnew(const std::shared_ptr<Session>& session) noexcept {
  // Before the base, so that they come with it, mostly.
  const StoredJournal& journal = JournalOf(*session);
  static_cast<void>(CatchOutOfMemory({}, [&] {
    if (!journal.durable()) return absl::OkStatus();
    for (const SessionCheckpoint& checkpoint :
         stores_.engine.directory.checkpoints().Of(*session)) {
      if (!checkpoint.at->resident || journal.HasCheckpoint(checkpoint.id)) continue;
      // One that is refused stays in memory.
      saves_.SaveCheckpoint(session, checkpoint, [](const absl::Status&) {});
    }
    return absl::OkStatus();
  }));
  RequestSnapshot(session);
}

void SessionPersistence::Stop() {
  sweeps_.Stop();
  saves_.Stop();
  stores_.reads.Stop();
}

PersistenceStats SessionPersistence::stats() const {
  PersistenceStats stats = saves_.stats();
  stats.healthy = stores_.store.healthy() && writer_.status().ok();
  stats.journal = writer_.stats();
  stats.damaged_snapshots = loader_.damaged();
  stats.unloaded = sweeps_.unloaded();
  stats.store = stores_.store.condition();
  return stats;
}

}  // namespace mnemon
