// SPDX-License-Identifier: MIT
// What all calls of one engine use, and the answers with the facts of a session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/out_of_memory.h"
#include "server/durability/session_persistence.h"
#include "server/engine/model_table.h"
#include "server/requests/observer.h"
#include "server/requests/request_check.h"
#include "server/run/engine_context.h"
#include "server/sessions/session_directory.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Owned by the engine, set up by Engine::Create, constant for all others. Safe for
// concurrent use. Outlives all work under way: the engine joins all threads first.
struct EngineParts {
  std::shared_ptr<EngineContext> context;
  std::shared_ptr<SessionPersistence> persistence;  // null without a store
  ModelTable models;

  // Tells the observer.
  void Report(SessionEvent event) const;
  CallLimits LimitsOf(const ModelRunner& runner) const;
  // The checks of mnemon::CheckSettings for a session of this model.
  absl::Status CheckSettings(const SessionSettings& settings, size_t model) const;
  // ABORTED, SESSION_BUSY: another call holds the session.
  absl::Status Busy(const Session& session) const;
  // An empty session that no directory gets: of a call without one, or for a copy.
  std::shared_ptr<Session> MakeUnnamed(size_t model) const;
  // HistorySweeps::MakeRoom; does not wait without a store, or if `of` is absent.
  bool MakeRoom(int64_t bytes, std::optional<SessionPersistence::Short> of,
                const std::function<bool()>& fits) const;
  // Counts the memory of a new session or checkpoint. MEMORY_LIMIT.
  absl::Status ChargeNew(Session& session, int64_t bytes) const;

  // Runs `body`, after which `on_done` has to answer within the bound of `kind`. If
  // `body` returns an error, or throws std::bad_alloc, that is returned, and `on_done`
  // is not called; if it was called before, the result is OK.
  template <class Outcome, class Body>
  absl::Status Begin(WaiterKind kind, const OneAnswer<Outcome>& on_done,
                     const Body& body) const {
    // `body` may move from `on_done`.
    const OneAnswer<Outcome> kept = on_done;
    kept.Watch(context->waiters, kind);
    const absl::Status begun = CatchOutOfMemory({}, body);
    return begun.ok() || !kept.Dismiss() ? absl::OkStatus() : begun;
  }

  // The session as it is now.
  SessionFacts FactsOf(const Session& session) const;
  static CheckpointFacts FactsOf(const SessionCheckpoint& checkpoint);
  // Answers with the facts of the session; std::bad_alloc becomes the answer.
  void AnswerNow(const Session& session, const OnAnswer<SessionFacts>& on_done) const;
  // The same once the changes so far are synced, or the error of the store.
  void AnswerWhenSynced(const std::shared_ptr<Session>& session,
                        OnAnswer<SessionFacts> on_done) const;
};

}  // namespace mnemon
