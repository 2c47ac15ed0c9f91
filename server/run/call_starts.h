// SPDX-License-Identifier: MIT
// Starts of the calls of one runner: from the permit to the first step.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/call.h"
#include "server/run/call_ends.h"
#include "server/run/memory_shortage.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"

namespace mnemon {

// Owned by the runner's thread.
class CallStarts {
 public:
  // All outlive it.
  CallStarts(RunnerScope& scope, RunnerInbox& inbox, CallEnds& ends,
             MemoryShortage& shortage)
      : scope_(scope), inbox_(inbox), ends_(ends), shortage_(shortage) {}

  // Admits calls that have a permit, in order, until one has to wait for blocks. False:
  // nothing has changed.
  bool AdmitStarting();
  // Ends calls that wait for blocks and were cancelled, or would be too late.
  void EndDue();
  // Appends the next of a scoring call's input to its history, where a step may compute
  // it.
  void TakeInput(Call& call);

 private:
  // False: it waits for blocks.
  bool Admit(std::shared_ptr<Call> call);
  absl::StatusOr<bool> TryAdmit(Call& call);
  // Whether the fixed entries of its state fit, by eviction if need be. False: it
  // waits.
  absl::StatusOr<bool> FitFixed(Session& session);
  // Reserves the blocks of the prompt. False: it waits.
  absl::StatusOr<bool> ReserveBlocks(Call& call, int64_t prompt);
  // It runs from now on; its prompt joins the history.
  void Begin(Call& call, int64_t prompt);
  // Has the image of a state restored, or dropped. False: it waits.
  bool Restore(Session& session);
  // OK, or why a call that waits for blocks can no longer end before its deadline.
  absl::Status CheckDeadline(const Call& call) const;
  // Gives a call that only scores the state of its source, where that is as it was.
  absl::Status PrepareScoring(Call& call);
  // Drops the state that the one of a scoring call is a copy of, unless a call uses it,
  // so that blocks need not be copied.
  void DropSource(const Call& call);
  // Whether something may still make room for a call that finds none.
  bool MayFindRoom() const;

  RunnerScope& scope_;
  RunnerInbox& inbox_;
  CallEnds& ends_;
  MemoryShortage& shortage_;
};

}  // namespace mnemon
