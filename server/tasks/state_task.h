// SPDX-License-Identifier: MIT
// Work on the histories and states of one model's sessions that its runner does between
// two steps, and the access that it has there.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/state/arena.h"
#include "server/sessions/session.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// On the runner's thread, while no step is under way.
class StateAccess {
 public:
  virtual ~StateAccess() = default;

  virtual StateArena& arena() = 0;
  // Tokens of the history that a fork takes over: all of a session at rest; of one that
  // a call runs on those up to the last delivered one, or, where none was delivered,
  // those before the call.
  virtual int64_t PositionOf(const Session& session) const = 0;
  // A session without a call, whose state or history was set, rests from now on. Its
  // state may be dropped, as those of others.
  virtual void Rest(const std::shared_ptr<Session>& session) = 0;
  virtual void DropState(Session& session) = 0;
  // Of a session without a call whose state left a device's memory: back there, if
  // there is room for it at once.
  virtual void BringBack(const std::shared_ptr<Session>& session) = 0;
  // Ends the call on the session, if there is one, at its last delivered token.
  virtual void EndCall(Session& session, const absl::Status& status) = 0;
  // Ends the call that holds the session if one with this id resumes it, with ABORTED,
  // STREAM_RESUMED; or if it goes on without a consumer. It may still hold the session
  // for a moment where its consumer has taken the end.
  virtual void GiveWay(Session& session, const std::string& request_id) = 0;
  // Ends a call that holds its session, or is about to, and was not admitted, with
  // ABORTED, STREAM_RESUMED. It holds the session for a moment yet.
  virtual void Supersede(const std::shared_ptr<Call>& call) = 0;
  // As SessionDirectory::Hold, for the task, which releases the session there. A call
  // whose consumer took the end since the round began no longer runs on it.
  virtual absl::StatusOr<bool> Hold(Session& session) = 0;
  // Drops states of sessions at rest so that one of so many computed tokens fits into
  // state_bytes. False: it does not, or not yet: blocks are cleaned first.
  virtual bool MakeRoomFor(int64_t computed) = 0;
  // RESOURCE_EXHAUSTED, MEMORY_LIMIT; whoever has memory that it does not use gives up
  // so many bytes.
  virtual absl::Status MemoryLimit(int64_t bytes) = 0;
  // Other threads read or write the state at rest of a session that is in no directory:
  // it stays as it is until Unpin.
  virtual void Pin(Session& session) = 0;
  virtual void Unpin(Session& session) = 0;
  // To a callback thread, after this round.
  virtual void Post(std::shared_ptr<Callback> callback) = 0;
};

// Exactly one of the two is called, once.
class StateTask : public DestroyedLater {
 public:
  // Nothing in it takes a time in proportion to a history or a state, but for a
  // reference to each of its pieces and blocks. May throw std::bad_alloc, then Refuse
  // is called.
  virtual void Run(StateAccess& states) = 0;
  // Any thread. UNAVAILABLE, DRAINING; RESOURCE_EXHAUSTED, OUT_OF_MEMORY.
  virtual void Refuse(const absl::Status& status) = 0;
};

}  // namespace mnemon
