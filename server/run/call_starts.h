// SPDX-License-Identifier: MIT
// Starts of the calls of one runner: from the permit to the first step.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/call.h"
#include "server/run/call_ends.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"

namespace mnemon {

// Owned by the runner's thread.
class CallStarts {
 public:
  // All outlive it.
  CallStarts(RunnerScope& scope, RunnerInbox& inbox, CallEnds& ends)
      : scope_(scope), inbox_(inbox), ends_(ends) {}

  // Admits calls that have a permit, in order, until one has to wait for blocks. False:
  // nothing has changed.
  bool AdmitStarting();
  // Ends calls that wait for blocks and were cancelled, or would be too late.
  void EndDue();
  // Appends what a step may compute of a scoring call's input to its history.
  void TakeInput(Call& call);

 private:
  // False: it waits for blocks.
  bool Admit(std::shared_ptr<Call> call);
  absl::StatusOr<bool> TryAdmit(Call& call);
  // Makes room for the fixed entries of its state; reserves the blocks of its prompt.
  // False: it waits.
  absl::StatusOr<bool> FitFixed(Session& session);
  absl::StatusOr<bool> ReserveBlocks(Call& call, int64_t prompt);
  // It runs; its prompt joins the history.
  void Begin(Call& call, int64_t prompt);
  // Has the image of a state restored, or dropped. False: it waits.
  bool Restore(Session& session);
  // Gives a call that only scores the state of its source, where that is as it was.
  absl::Status PrepareScoring(Call& call);
  // Whether something may still make room for a call that finds none.
  bool MayFindRoom() const;

  RunnerScope& scope_;
  RunnerInbox& inbox_;
  CallEnds& ends_;
};

}  // namespace mnemon
