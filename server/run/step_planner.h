// SPDX-License-Identifier: MIT
// The plan of the next step of one runner: which calls take part, and the blocks for
// them; and what happens when none can.
//
// A running call that finds no block pauses, and until it goes on no other call is
// admitted. When nothing can step, the states of stalled calls are dropped; when all
// running calls are paused and nothing is left to evict, the one admitted last is
// preempted: its state goes, and it waits until its whole history can be computed
// again. A call that does not fit where it is the only one left ends,
// RESOURCE_EXHAUSTED, at its last generated token.
#pragma once

#include <cstdint>
#include <vector>

#include "server/calls/call.h"
#include "server/run/call_ends.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"
#include "server/run/scheduler.h"

namespace mnemon {

// Owned by the runner's thread.
class StepPlanner {
 public:
  // All outlive it.
  StepPlanner(RunnerScope& scope, const RunnerInbox& inbox, CallEnds& ends)
      : scope_(scope), inbox_(inbox), ends_(ends) {}

  void Plan();
  // For the step, which takes them.
  std::vector<ScheduledChunk>& chunks() { return chunks_; }
  // Whether a running call pauses because it has found no block.
  bool starved() const { return !starved_.empty(); }
  // Nothing can step, and calls wait for blocks: makes room, or ends a call. True:
  // another plan, or another start of a call, may find more.
  bool ResolveStarvation();

 private:
  // Adds the chunk of the call, if it takes part. `least_served`: see
  // Call::prefill_served; -1: none has been served. False: the call is set aside.
  bool PlanCall(Call& call, Call::Time now, int64_t least_served);
  int64_t LeastServed() const;
  void PlanFixed();
  // Counts the blocks of the plan, and makes room for calls that are starved.
  void CountBlocks();
  // Tokens that the steps under way draw for it, and that the next one may compute.
  int64_t DrawnAhead(const Call& call) const;
  // Blocks that the chunks of the plan take at most, beside those that are reserved.
  int64_t WantedBlocks() const;
  // Moves a call from calls.running to calls.stalled.
  void SetAside(RunnerCalls::List::iterator call);
  // Drops the state of a running call, which keeps its slot.
  void DropState(Call& call);
  // Whether a preempted call goes on: when its history fits, with some room for those
  // that run.
  bool GoesOn(Call& call);
  // Drops the state of the stalled call admitted last. False: there is none.
  bool DropStalled();

  RunnerScope& scope_;
  const RunnerInbox& inbox_;
  CallEnds& ends_;
  std::vector<ScheduledChunk> chunks_;
  std::vector<Call*> starved_;  // of the last plan
  bool recycling_ = false;      // blocks were, just before it
};

}  // namespace mnemon
