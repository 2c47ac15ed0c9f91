// SPDX-License-Identifier: MIT
#include "server/durability/session_persistence.h"

#include <optional>

#include "base/out_of_memory.h"
#include "server/durability/stored_journal.h"
#include "server/requests/engine_errors.h"
#include "server/sessions/stored_session.h"
#include "server/tasks/rewind_tasks.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {

SessionPersistence::SessionPersistence(const EngineContext& context,
                                       SessionStore& store,
                                       const std::vector<EngineModel>& models)
    : context_(context),
      stores_(context, store, models),
      unusable_(context.directory, ChargeOf(context.memory, &EngineMemory::unusable)),
      histories_(stores_),
      sweeps_(stores_, histories_),
      loader_(stores_, histories_, sweeps_),
      saves_(stores_, loader_),
      requests_(context, saves_),
      recovery_(stores_, writer_, unusable_, sweeps_),
      writer_(store, context.callbacks, context.waiters,
              {.record = [this](const auto& session) { return RecordOf(session); },
               .lost = [this](const auto& session,
                              const auto& status) { OnLost(session, status); },
               .needs_base = [this](const auto& session) { StoreAnew(session); },
               .deleted = [this](const auto& session) { OnDeleted(session); }}) {}

SessionPersistence::~SessionPersistence() = default;

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
  context_.directory.Describe(session, stored);
  const auto expiry = stored.expiry();
  const int64_t unix_ms = expiry
                              ? std::chrono::duration_cast<std::chrono::milliseconds>(
                                    expiry->time_since_epoch())
                                    .count()
                              : 0;
  return RecordExpiry(unix_ms) + FormatStoredSession(stored);
}

void SessionPersistence::OnLost(const std::shared_ptr<Session>& session,
                                const absl::Status& status) {
  if (stores_.runners.empty()) return;
  stores_.runners[session->model]->Do(MakeEndCallTask(session, status));
}

void SessionPersistence::OnDeleted(const std::shared_ptr<Session>& session) {
  if (!context_.directory.Retire(session) || stores_.runners.empty()) return;
  stores_.runners[session->model]->Forget(session);
}

void SessionPersistence::Settle(const std::shared_ptr<Session>& session,
                                WaiterKind kind, SessionBefore before,
                                OnSynced on_settled) {
  ModelRunner& runner = *stores_.runners[session->model];
  const auto settle = [this, session, &runner, before = std::move(before),
                       on_settled](const absl::Status& status) {
    const auto release = [this, session, on_settled](const absl::Status& outcome) {
      context_.directory.calls().Release(*session, /*taken=*/false);
      on_settled(outcome);
    };
    OnAnswer<bool> taken_back;
    const absl::Status begun = CatchOutOfMemory({}, [&] {
      if (!status.ok()) {
        taken_back = [release, status](const absl::StatusOr<bool>&) {
          release(status);
        };
        runner.Do(MakeTakeBackTask(session, before, context_.directory, taken_back));
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

void SessionPersistence::Delete(const Session& session, OnSynced on_done) {
  if (session.journal == nullptr) {
    if (on_done) on_done(absl::OkStatus());
    return;
  }
  session.journal->Delete([on_done = std::move(on_done)](const absl::Status& status) {
    if (on_done) on_done(status);
  });
}

bool SessionPersistence::SaveAll(std::chrono::steady_clock::time_point deadline) {
  const bool saved = requests_.SaveAll(deadline);
  return writer_.WaitIdle(deadline) && saved;
}

void SessionPersistence::StoreAnew(const std::shared_ptr<Session>& session) noexcept {
  // Before the base, so that they come with it, mostly.
  const StoredJournal& journal = JournalOf(*session);
  static_cast<void>(CatchOutOfMemory({}, [&] {
    if (!journal.durable()) return absl::OkStatus();
    for (const SessionCheckpoint& checkpoint :
         context_.directory.checkpoints().Of(*session)) {
      if (!checkpoint.at->resident || journal.HasCheckpoint(checkpoint.id)) continue;
      // One that is refused stays in memory.
      SaveCheckpoint(session, checkpoint, [](const absl::Status&) {});
    }
    return absl::OkStatus();
  }));
  RequestSnapshot(session);
}

void SessionPersistence::Stop() {
  sweeps_.Stop();
  const auto waiting = requests_.Stop();
  stores_.store.StopReading();
  // Whoever waits for a base is told.
  const absl::Status draining = CatchOutOfMemory({}, engine_errors::Draining);
  for (const auto& session : waiting) JournalOf(*session).BaseFailed(draining);
}

PersistenceStats SessionPersistence::stats() const {
  const SnapshotSaves::Counts saved = saves_.counts();
  return {.healthy = stores_.store.healthy() && writer_.status().ok(),
          .journal = writer_.stats(),
          .snapshots = saved.snapshots,
          .snapshot_bytes = saved.bytes,
          .snapshot_failures = saved.failures,
          .damaged_snapshots = loader_.damaged(),
          .unloaded = histories_.unloaded(),
          .store = stores_.store.condition()};
}

}  // namespace mnemon
