// SPDX-License-Identifier: MIT
// Work on the histories and states of one model's sessions that its runner does between
// two steps, and the access that it has there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/run/call_ends.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"

namespace mnemon {

// On the runner's thread, while no step is under way.
class RunnerStates {
 public:
  // All outlive it.
  RunnerStates(RunnerScope& scope, RunnerInbox& inbox, CallEnds& ends)
      : scope_(scope), inbox_(inbox), ends_(ends) {}

  const EngineContext& context() const { return *scope_.context; }
  SessionDirectory& directory() const { return scope_.context->directory; }
  StateArena& arena() { return scope_.states.arena(); }
  // Tokens of the history that a fork takes over: all of a session at rest; of one that
  // a call runs on those up to the last delivered one, or, where none was delivered,
  // those before the call.
  int64_t PositionOf(const Session& session) const {
    const Call* const call = session.in_runner.call;
    const int64_t size = session.history.size();
    return call == nullptr ? size : std::min(size, call->cut_size());
  }
  // A session without a call, whose state or history was set, rests from now on. Its
  // state may be dropped, as those of others.
  void Rest(const std::shared_ptr<Session>& session) { ends_.Rest(session); }
  void DropState(Session& session) { scope_.states.Drop(session.in_runner); }
  // The state of a session at rest; nothing where a call has it.
  void DropAtRest(Session& session);
  // Brings the state of a session without a call back to the device's memory, if there
  // is room for it at once.
  void BringBack(const std::shared_ptr<Session>& session) {
    if (session->in_runner.call == nullptr) scope_.states.BringBack(StateOf(session));
  }
  // Ends the call on the session, if there is one, at its last delivered token.
  void EndCall(Session& session, const absl::Status& status);
  void GiveWay(Session& session, const std::string& request_id) {
    ends_.GiveWay(session, request_id);
  }
  // Ends a call that holds its session, or is about to, and was not admitted, with
  // ABORTED, STREAM_RESUMED. It holds the session for a moment yet.
  void Supersede(const std::shared_ptr<Call>& call);
  // As SessionCalls::Hold, for the task, which releases the session there. A call whose
  // consumer took the end since the round began no longer runs on it.
  absl::StatusOr<bool> Hold(Session& session);
  // Drops states of sessions at rest so that one of so many computed tokens fits into
  // state_bytes. False: it does not, or not yet: blocks are cleaned first.
  bool MakeRoomFor(int64_t computed) { return scope_.states.MakeRoomFor(computed); }
  // Other threads read or write the state at rest of a session that is in no directory:
  // it stays as it is until Unpin.
  void Pin(Session& session) {
    ++scope_.pins;
    scope_.states.UpdateBytes(session.in_runner);
  }
  void Unpin() { --scope_.pins; }
  // To a callback thread, after this round.
  void Post(std::shared_ptr<Callback> callback) {
    scope_.callbacks.Add(std::move(callback));
  }

 private:
  RunnerScope& scope_;
  RunnerInbox& inbox_;
  CallEnds& ends_;
};

// Exactly one of the two is called, once.
class StateTask : public DestroyedLater {
 public:
  // Nothing in it takes a time in proportion to a history or a state, but for a
  // reference to each of its pieces and blocks. May throw std::bad_alloc, then Refuse
  // is called.
  virtual void Run(RunnerStates& states) = 0;
  // Any thread. UNAVAILABLE, DRAINING; RESOURCE_EXHAUSTED, OUT_OF_MEMORY.
  virtual void Refuse(const absl::Status& status) = 0;
};

}  // namespace mnemon
