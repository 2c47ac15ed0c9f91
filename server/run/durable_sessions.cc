// SPDX-License-Identifier: MIT
#include "server/run/durable_sessions.h"

#include <chrono>
#include <utility>

#include "server/calls/call.h"
#include "server/run/runner_scope.h"
#include "server/sessions/session_journal.h"

namespace mnemon {
namespace {

// Whether the turn that ends now follows another one of the session so closely that
// its snapshot may wait for the next.
bool FollowsClosely(const RunnerScope& scope, Session& session) {
  const auto now = std::chrono::steady_clock::now();
  const auto since = now - std::exchange(session.in_runner.turn_end, now);
  // What a full memory has may make way for others before the session has rested.
  const ByteBudget& budget = scope.context->memory->budget;
  return since < scope.context->options.snapshot_rest &&
         scope.counts.state_bytes <= scope.capacity_bytes / 2 &&
         budget.used() <= budget.limit() / 2;
}

}  // namespace

void StoreTurn(const RunnerScope& scope, const std::shared_ptr<Session>& session,
               bool ends) {
  if (session->journal == nullptr || session->forgotten) return;
  DurableSessions& durable = *scope.context->durable;
  session->journal->TouchRecord();
  if (session->journal->durable()) {
    if (ends && FollowsClosely(scope, *session)) {
      durable.RequestAtRest(session);
    } else {
      durable.RequestSnapshot(session);
    }
  }
  durable.KeepMemoryFree();
}

bool HistoryFits(const RunnerScope& scope, const Call& call) {
  const EngineMemory& memory = *scope.context->memory;
  if (call.nameless()) return !memory.budget.exhausted();
  DurableSessions* const durable = scope.context->durable;
  if (durable != nullptr) durable->KeepMemoryFree();
  if (!memory.resting.exhausted()) return true;
  // Others that are in the store make way.
  return !memory.budget.exhausted() && durable != nullptr &&
         durable->GiveUpHistories(0);
}

}  // namespace mnemon
