// SPDX-License-Identifier: MIT
// The steps of one runner: submits planned chunks, completes steps, and hands their
// results to the calls.
//
// Where the decoder takes more than one step, the next one is submitted while one is
// under way, as if its calls had got the tokens that it draws. What ends a call is
// found when its token is known: what a step computes beyond it is dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "server/admission/load_estimate.h"
#include "server/run/call_ends.h"
#include "server/run/device_recovery.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"
#include "server/run/scheduler.h"

namespace mnemon {

// Owned by the runner's thread.
class StepLoop {
 public:
  // All outlive it. `stop`: no step is begun any more.
  StepLoop(RunnerScope& scope, RunnerInbox& inbox, CallEnds& ends,
           DeviceRecovery& device, const std::atomic<bool>& stop)
      : scope_(scope), inbox_(inbox), ends_(ends), device_(device), stop_(stop) {}

  // One step for the chunks of a plan; then one for each whose call was part of a step
  // that failed, with a turn of its own. Where the decoder takes several steps, all but
  // the last are complete afterwards. Takes the chunks.
  void Run(std::vector<ScheduledChunk>& chunks);
  void Finish() { Step({}, 0); }  // completes the steps under way

  // The intervals of steps since the last call, and their tokens.
  struct Measured {
    std::optional<LoadEstimate::Duration> interval;  // absent: no step was made
    int64_t tokens = 0;
  };
  Measured TakeMeasured() { return std::exchange(measured_, {}); }

 private:
  // Begins a step, of some chunks, and completes steps until `left` are under way;
  // none, where it could not be begun.
  void Step(std::span<ScheduledChunk> chunks, int left);
  std::span<ScheduledChunk> CompleteStep();  // the oldest one
  // Takes the results of a step, and ends calls that waited for it.
  void Commit(std::span<ScheduledChunk> chunks);
  void Commit(ScheduledChunk& chunk);
  void CommitToken(ScheduledChunk& chunk, const std::shared_ptr<Call>& call);

  RunnerScope& scope_;
  RunnerInbox& inbox_;
  CallEnds& ends_;
  DeviceRecovery& device_;
  const std::atomic<bool>& stop_;
  RunnerScope::Time step_begin_;  // of the oldest step under way
  Measured measured_;
};

}  // namespace mnemon
