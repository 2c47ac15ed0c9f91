// SPDX-License-Identifier: MIT
// Ends of the calls of one runner: what becomes of session and stream. A cancelled call
// ends at its last delivered token, another one at its last generated token; one that
// failed before its first token leaves the session as it was. A call ends when no step
// that it takes part in is under way.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/calls/call.h"
#include "server/run/runner_scope.h"

namespace mnemon {

// Owned by the runner's thread.
class CallEnds {
 public:
  // A consumer that reads takes the rest of a call sooner; at most the idle timeout.
  static constexpr std::chrono::milliseconds kUnread{1000};

  // `scope` outlives it.
  explicit CallEnds(RunnerScope& scope) : scope_(scope) {}

  // Ends a running call, now or when the steps that it takes part in are complete.
  void End(const std::shared_ptr<Call>& call, absl::Status status,
           std::optional<FinishFacts> facts = std::nullopt);
  // Ends those whose steps are complete.
  void EndWaiting();
  // Ends a call that has a permit and was not admitted.
  void EndStarting(std::shared_ptr<Call> call, absl::Status status);
  // Ends a call whose caller is at fault: tokens that wait in the stream are dropped.
  void Abort(const std::shared_ptr<Call>& call, const absl::Status& status);
  // The consumer has taken the end, and releases the session itself.
  void LeaveDelivered(Call& call);
  // The consumer has taken the end of the stream, or has cancelled it.
  void HandleConsumerEnd(const std::shared_ptr<Call>& call);
  // The session left the directory.
  void HandleForgotten(const std::shared_ptr<Session>& session);
  // Ends calls that were cancelled, whose time is up, or whose callers are idle; not
  // those that wait for blocks.
  void EndDue();
  // Ends the call on the session if one with this id resumes it, with ABORTED,
  // STREAM_RESUMED; or if it goes on without a consumer. It may still hold the session
  // for a moment where its consumer has taken the end.
  void GiveWay(Session& session, const std::string& request_id);

  // With the next Publish: ends the streams of calls that ended in this round.
  void FinishEnded();
  // A session without a call rests; nothing where it was removed.
  void Rest(const std::shared_ptr<Session>& session);

 private:
  // How its stream ends with the next Publish.
  void SetEnding(Call& call, absl::Status status,
                 std::optional<FinishFacts> facts = std::nullopt);
  // Ends a call that delivers; the stream of a call that goes on.
  void EndDelivering(Call& call, const absl::Status& status);
  void LeaveConsumer(Call& call, const absl::Status& status);
  void EndDueDelivering();
  void FinishStream(Call& call);
  // The end of its stream waits for nothing.
  void ReleaseEnd(Call& call);
  // The session of a call that was cancelled or aborted: cut, or as before the call.
  void CutToDelivered(Call& call);
  void RollBack(Call& call);
  // The source of a scoring call becomes what its copy is.
  void Join(Call& call);
  // Releases the source of a scoring call, unless the store is to have its change
  // first.
  void EndCopy(const Call& call);
  // With the next Publish. The state is in no list then.
  void GiveBackPermit(const Call& call);
  // The call no longer holds its session, whose history is final; its request id is
  // remembered if it was `taken`.
  void Release(Call& call, bool taken);

  RunnerScope& scope_;
};

}  // namespace mnemon
