// SPDX-License-Identifier: MIT
#include "server/run/turn_store.h"

#include <chrono>
#include <utility>

#include "server/run/durable_sessions.h"
#include "server/sessions/session_journal.h"

namespace mnemon {

void TurnStore::Store(const std::shared_ptr<Session>& session,
                      SnapshotTime time) const {
  if (session->journal == nullptr || session->forgotten) return;
  DurableSessions& durable = *scope_.context->durable;
  session->journal->TouchRecord();
  if (session->journal->durable()) {
    if (time == SnapshotTime::kAtRest && FollowsClosely(*session)) {
      durable.RequestAtRest(session);
    } else {
      durable.RequestSnapshot(session);
    }
  }
  durable.KeepMemoryFree();
}

bool TurnStore::FollowsClosely(Session& session) const {
  const auto now = std::chrono::steady_clock::now();
  const auto since = now - std::exchange(session.in_runner.turn_end, now);
  // What a full memory has may make way for others before the session has rested.
  const ByteBudget& budget = scope_.context->memory->budget;
  return since < scope_.context->options.snapshot_rest &&
         scope_.counts.state_bytes <= scope_.capacity_bytes / 2 &&
         budget.used() <= budget.limit() / 2;
}

bool TurnStore::HistoryFits(const Call& call) const {
  const EngineMemory& memory = *scope_.context->memory;
  if (call.nameless()) return !memory.budget.exhausted();
  DurableSessions* const durable = scope_.context->durable;
  if (durable != nullptr) durable->KeepMemoryFree();
  if (!memory.resting.exhausted()) return true;
  // Others that are in the store make way.
  return !memory.budget.exhausted() && durable != nullptr &&
         durable->GiveUpHistories(0);
}

}  // namespace mnemon
