// SPDX-License-Identifier: MIT
#include "server/run/runner_states.h"

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

void RunnerStates::DropAtRest(Session& session) {
  using Place = ResidentState::Place;
  const SessionInRunner& state = session.in_runner;
  const bool rests = state.place == Place::kResting || state.place == Place::kImage;
  if (rests && state.call == nullptr) DropState(session);
}

void RunnerStates::EndCall(Session& session, const absl::Status& status) {
  Call* const call = session.in_runner.call;
  if (call != nullptr) ends_.Abort(call->shared_from_this(), status);
}

void RunnerStates::Supersede(const std::shared_ptr<Call>& call) {
  // One that is not queued yet is refused as cancelled, one that has a permit ends in
  // this round; the first end of the stream counts.
  if (call->settled.exchange(true) || !call->stream->StopDelivery()) return;
  const absl::Status status = CatchOutOfMemory({}, engine_errors::StreamResumed);
  scope_.Finish(*call, status);
  inbox_.RefuseWaiting(call, status);
}

absl::StatusOr<bool> RunnerStates::Hold(Session& session) {
  MNEMON_ASSIGN_OR_RETURN(const bool held, directory().calls().Hold(session, ""));
  if (held && session.in_runner.call != nullptr) {
    ends_.LeaveDelivered(*session.in_runner.call);
  }
  return held;
}

}  // namespace mnemon
