// SPDX-License-Identifier: MIT
// What all calls of one engine use.
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
#include "server/sessions/session.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Owned by the engine, set up by Engine::Create, constant for all others. Safe for
// concurrent use. It outlives what is under way: the engine joins all threads first.
struct EngineParts {
  std::shared_ptr<EngineContext> context;
  std::shared_ptr<SessionPersistence> persistence;  // null without a store
  ModelTable models;

  // Tells the observer.
  void Report(SessionEvent event) const;
  CallLimits LimitsOf(const ModelRunner& runner) const;
  // ABORTED, SESSION_BUSY: another call holds the session.
  absl::Status Busy(const Session& session) const;
  // An empty session that no directory gets: of a call without one, or for a copy.
  std::shared_ptr<Session> MakeUnnamed(size_t model) const;
  // SessionPersistence::MakeRoom. Without a store, or where `of` is absent, nobody
  // waits.
  bool MakeRoom(int64_t bytes, std::optional<SessionPersistence::Short> of,
                const std::function<bool()>& fits) const;
  // Counts what a new session or checkpoint takes. MEMORY_LIMIT.
  absl::Status ChargeNew(Session& session, int64_t bytes) const;

  // Runs `body`, after which `on_done` has to answer within the bound of `kind`. Where
  // `body` returns an error, or throws std::bad_alloc, that is returned, and `on_done`
  // is not called; where it was called before, the result is OK.
  template <class Outcome, class Body>
  absl::Status Begin(WaiterKind kind, const OneAnswer<Outcome>& on_done,
                     const Body& body) const {
    // `body` may move from `on_done`.
    const OneAnswer<Outcome> kept = on_done;
    kept.Watch(context->waiters, kind);
    const absl::Status begun = CatchOutOfMemory({}, body);
    return begun.ok() || !kept.Dismiss() ? absl::OkStatus() : begun;
  }
};

}  // namespace mnemon
