// SPDX-License-Identifier: MIT
#include "server/run/runner_states.h"

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

int64_t RunnerStates::PositionOf(const Session& session) const {
  const Call* const call = session.in_runner.call;
  if (call == nullptr) return session.history.size();
  return std::min(session.history.size(), call->cut_size());
}

void RunnerStates::Rest(const std::shared_ptr<Session>& session) {
  ends_.Rest(session);
}

void RunnerStates::DropState(Session& session) {
  scope_.states.Drop(session.in_runner);
}

void RunnerStates::BringBack(const std::shared_ptr<Session>& session) {
  if (session->in_runner.call == nullptr) scope_.states.BringBack(StateOf(session));
}

void RunnerStates::EndCall(Session& session, const absl::Status& status) {
  Call* const call = session.in_runner.call;
  if (call != nullptr) ends_.Abort(call->shared_from_this(), status);
}

void RunnerStates::GiveWay(Session& session, const std::string& request_id) {
  ends_.GiveWay(session, request_id);
}

void RunnerStates::Supersede(const std::shared_ptr<Call>& call) {
  // One that is not queued yet is refused as cancelled, one that has a permit ends in
  // this round; the first end of the stream counts.
  if (call->settled.exchange(true) || !call->stream->StopDelivery()) return;
  const absl::Status status = CatchOutOfMemory({}, engine_errors::StreamResumed);
  if (call->stream->Finish(status, std::nullopt)) scope_.callbacks.Add(call->stream);
  inbox_.RefuseWaiting(call, status);
}

absl::StatusOr<bool> RunnerStates::Hold(Session& session) {
  MNEMON_ASSIGN_OR_RETURN(const bool held,
                          scope_.context->directory.calls().Hold(session, ""));
  if (held && session.in_runner.call != nullptr) {
    ends_.LeaveDelivered(*session.in_runner.call);
  }
  return held;
}

bool RunnerStates::MakeRoomFor(int64_t computed) {
  return scope_.states.MakeRoomFor(computed);
}

absl::Status RunnerStates::MemoryLimit(int64_t bytes) {
  return scope_.context->MemoryLimit(bytes);
}

void RunnerStates::Pin(Session& session) {
  ++scope_.pins;
  scope_.states.UpdateBytes(session.in_runner);
}

void RunnerStates::Unpin(Session&) { --scope_.pins; }

void RunnerStates::Post(std::shared_ptr<Callback> callback) {
  scope_.callbacks.Add(std::move(callback));
}

}  // namespace mnemon
