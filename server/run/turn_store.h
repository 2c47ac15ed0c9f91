// SPDX-License-Identifier: MIT
// When the turns of one runner's sessions go to the store, and whether histories fit
// into memory beside it.
#pragma once

#include <memory>

#include "server/calls/call.h"
#include "server/run/runner_scope.h"
#include "server/sessions/session.h"

namespace mnemon {

// Owned by the runner's thread; keeps no state of its own but in the sessions.
class TurnStore {
 public:
  // `scope` outlives it.
  explicit TurnStore(const RunnerScope& scope) : scope_(scope) {}

  // Has what is new of a session written, where there is a store; its snapshot now, or,
  // where one turn follows another, once it has rested.
  enum class SnapshotTime { kNow, kAtRest };
  void Store(const std::shared_ptr<Session>& session, SnapshotTime time) const;
  // Whether the history of the call has not taken more memory than there is for it.
  bool HistoryFits(const Call& call) const;

 private:
  // Whether the turn that ends now follows another one of the session so closely that
  // its snapshot may wait for the next.
  bool FollowsClosely(Session& session) const;

  const RunnerScope& scope_;
};

}  // namespace mnemon
