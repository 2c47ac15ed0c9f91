// SPDX-License-Identifier: MIT
// The runner of one loaded decoder: a thread with its own inbox, queue and arena, which
// makes all calls of that model. Continuous batching: every running call takes part in
// every step of its model until it finishes, pauses or ends.
//
// A round: take what has come (RunnerInbox), do tasks between two steps (RunnerStates),
// start and end calls (CallStarts, CallEnds), plan a step (StepPlanner), make it
// (StepLoop), publish. See docs/engine_threads.md for who may touch what.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/calls/call.h"
#include "server/requests/request.h"
#include "server/run/call_ends.h"
#include "server/run/call_starts.h"
#include "server/run/device_recovery.h"
#include "server/run/engine_context.h"
#include "server/run/model_stats.h"
#include "server/run/runner_inbox.h"
#include "server/run/runner_scope.h"
#include "server/run/runner_states.h"
#include "server/run/step_loop.h"
#include "server/run/step_planner.h"

namespace mnemon {

// Shared, because callbacks of streams may come at any time, without effect after Stop.
class ModelRunner : public std::enable_shared_from_this<ModelRunner> {
 public:
  // `model.decoder` is set. RESOURCE_EXHAUSTED when state_bytes does not hold one
  // session, or no thread can be started.
  static absl::StatusOr<std::shared_ptr<ModelRunner>> Start(
      size_t index, const EngineModel& model,
      const std::shared_ptr<const EngineContext>& context);
  ~ModelRunner();

  const EngineModel& model() const { return scope_.model; }
  // Any thread, for states that are pinned.
  StateMemory& state_memory() const { return scope_.states.arena().memory(); }
  int64_t vocab() const { return model().decoder->model().vocab; }
  // Tokens a session can compute.
  int64_t context_limit() const { return scope_.context_limit; }
  bool state_on_host() const { return scope_.states.on_host(); }

  // Any thread.
  // Starts or queues the call; its tokens and its end then go to its stream, unless an
  // error is returned: UNAVAILABLE, DRAINING; RESOURCE_EXHAUSTED: QUEUE_FULL,
  // DEADLINE_UNREACHABLE. REQUIRES: the caller holds the call's session.
  absl::Status Enqueue(const std::shared_ptr<Call>& call) {
    return inbox_.Enqueue(call);
  }
  // What the consumer of the call's stream did; called from its Take and Cancel.
  void OnStreamEvent(const std::shared_ptr<Call>& call, StreamEvent event);
  // Appends a part to a scoring call. RESOURCE_EXHAUSTED, QUEUE_FULL, while it waits
  // for a permit and the parts of all that wait exceed queue_bytes. REQUIRES: tokens
  // below V that fit the context.
  absl::Status AddInput(const std::shared_ptr<Call>& call,
                        std::span<const int32_t> tokens) {
    return inbox_.AddInput(call, tokens);
  }
  // No part follows.
  void CloseInput(const std::shared_ptr<Call>& call) { inbox_.CloseInput(call); }
  // The session left the directory: a call on it ends, and its state is dropped.
  void Forget(std::shared_ptr<Session> session);
  // Has the task done between two steps; refuses it from Stop on.
  void Do(std::shared_ptr<StateTask> task) { inbox_.Do(std::move(task)); }
  // Memory is short: drops states of sessions at rest, of about so many bytes. False:
  // there are none.
  bool GiveUp(int64_t bytes);
  // A call was refused since no memory was left for it.
  void RefuseForMemory() { inbox_.RefuseForMemory(); }
  // Refuses calls from now on; those taken go on.
  void Drain() { inbox_.Drain(); }
  // True when no call waits or runs; waits until `deadline` at most.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline) {
    return inbox_.WaitIdle(deadline);
  }
  // Ends all calls with UNAVAILABLE and joins the thread.
  void Stop();
  ModelStats Stats() const;
  // Until a running call ends by itself, on average, as measured; 0: not known yet.
  LoadEstimate::Duration TimeLeft() const { return inbox_.TimeLeft(); }

 private:
  using Time = std::chrono::steady_clock::time_point;

  ModelRunner(size_t index, const EngineModel& model,
              const std::shared_ptr<const EngineContext>& context,
              std::unique_ptr<StateArena> arena, bool on_host,
              std::function<void()> on_clean);

  // The runner's thread.
  void Run();
  // Waits for something to do; false: stop.
  bool Await();
  // Waits a moment with the turn on the pool, because consumers take what waits within
  // a moment, or not soon. False: the turn is to be given up.
  bool AwaitConsumersWithTheTurn();
  std::optional<Time> NextDue() const;
  void Round();
  void Receive();  // all mail but tasks
  void DoTasks();
  void CountForPublish();
  void Publish();
  void EndAll(const absl::Status& status);

  RunnerInbox inbox_;
  std::atomic<bool> stop_now_ = false;  // for the runner between steps

  // Owned by the runner's thread.
  RunnerScope scope_;
  CallEnds ends_;
  CallStarts starts_;
  StepPlanner planner_;
  DeviceRecovery device_;
  StepLoop steps_;
  RunnerStates states_;
  RunnerInbox::Mail mail_;
  bool busy_ = false;  // the last round did something

  std::thread thread_;  // started by Start; joined by Stop, which one thread calls
};

}  // namespace mnemon
