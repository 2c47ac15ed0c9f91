// SPDX-License-Identifier: MIT
// The access of tasks to the states of one runner.
#pragma once

#include <memory>
#include <string>

#include "server/run/call_ends.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"
#include "server/tasks/state_task.h"

namespace mnemon {

// Owned by the runner's thread.
class RunnerStates final : public StateAccess {
 public:
  // All outlive it.
  RunnerStates(RunnerScope& scope, RunnerInbox& inbox, CallEnds& ends)
      : scope_(scope), inbox_(inbox), ends_(ends) {}

  StateArena& arena() override { return scope_.states.arena(); }
  int64_t PositionOf(const Session& session) const override;
  void Rest(const std::shared_ptr<Session>& session) override;
  void DropState(Session& session) override;
  void BringBack(const std::shared_ptr<Session>& session) override;
  void EndCall(Session& session, const absl::Status& status) override;
  void GiveWay(Session& session, const std::string& request_id) override;
  void Supersede(const std::shared_ptr<Call>& call) override;
  absl::StatusOr<bool> Hold(Session& session) override;
  bool MakeRoomFor(int64_t computed) override;
  absl::Status MemoryLimit(int64_t bytes) override;
  void Pin(Session& session) override;
  void Unpin(Session& session) override;
  void Post(std::shared_ptr<Callback> callback) override;

 private:
  RunnerScope& scope_;
  RunnerInbox& inbox_;
  CallEnds& ends_;
};

}  // namespace mnemon
