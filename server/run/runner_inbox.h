// SPDX-License-Identifier: MIT
// What other threads have for one model's runner, and what they may know of it: under
// one mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/admission/admission_queue.h"
#include "server/calls/call.h"
#include "server/run/engine_context.h"
#include "server/run/model_stats.h"
#include "server/run/runner_scope.h"
#include "server/waiting/progress.h"

namespace mnemon {

class StateTask;

// Safe for concurrent use; some methods are for the runner's thread alone.
class RunnerInbox {
 public:
  using Calls = RunnerCalls::List;
  using Duration = AdmissionQueue::Duration;
  using Time = std::chrono::steady_clock::time_point;

  // A part of a scoring call, in pieces that join its history one by one.
  struct Input {
    std::shared_ptr<Call> call;
    std::list<InputPiece> pieces;
    int64_t tokens = 0;
  };
  // What has come for the runner's thread since it last looked.
  struct Mail {
    Calls started;  // have got a permit
    std::vector<Input> inputs;
    SessionList forgotten;  // sessions that left the directory
    std::list<std::shared_ptr<StateTask>> tasks;
    Calls consumed;      // calls whose consumer has taken the end or cancelled
    bool woken = false;  // anything, or a Wake
  };

  // `context` outlives it.
  explicit RunnerInbox(const EngineContext& context);

  // Any thread; see ModelRunner.
  absl::Status Enqueue(const std::shared_ptr<Call>& call);
  absl::Status AddInput(const std::shared_ptr<Call>& call,
                        std::span<const int32_t> tokens);
  void CloseInput(const std::shared_ptr<Call>& call);
  void Forget(std::shared_ptr<Session> session);
  void Do(std::shared_ptr<StateTask> task);
  void RefuseForMemory();
  void Drain();
  bool WaitIdle(Time deadline);
  Duration TimeLeft() const;
  void Wake();  // something has changed that the next round checks
  // The consumer of the call has taken the end; has cancelled it: a waiting one ends.
  void HandOver(const std::shared_ptr<Call>& call);
  void Cancel(const std::shared_ptr<Call>& call);
  // Ends a waiting call with `status`. False: it does not wait.
  bool RefuseWaiting(const std::shared_ptr<Call>& call, const absl::Status& status);
  // The runner's thread is to end; calls are refused from now on.
  void Stop();
  // Fills in what the inbox knows. `limit`: EngineContext::ProgressLimit.
  void Describe(ModelStats& stats, Time now, Progress::Duration limit) const;

  // The runner's thread.
  // Waits for something to do, unless `busy`, until `due` at most. Appends what has
  // come to `mail`. False: it is to end.
  bool Await(bool busy, std::optional<Time> due, Mail& mail);
  // Waits a moment; false: nothing has come.
  bool AwaitFor(std::chrono::nanoseconds most);
  void SignProgress() { progress_.Sign(); }
  // Publishes what other threads read, and gives permits to waiting calls; those that
  // would be too late end. Takes the ends of the round from `scope`. `step_interval`:
  // absent without a step.
  void Publish(RunnerScope& scope, std::optional<Duration> step_interval,
               int64_t step_tokens);
  // Ends all calls that wait for a permit with `status`.
  void RefuseAll(const absl::Status& status);
  // How long a call that waits for blocks would wait; absent: it can end before its
  // deadline.
  std::optional<Duration> WaitOfLateStart(const Call& call) const;
  Duration TimeToNextEnd() const;
  const LoadEstimate& estimate() const { return queue_.estimate(); }
  // Whether a pinned state will be given back whatever the calls do: one that a replay
  // is compared with stays until that ends.
  bool PinsEnd(const RunnerScope& scope) const;

 private:
  // Makes the status of a call that is not taken, after the mutex was released; null:
  // it is taken.
  using Refusal = std::function<absl::Status()>;
  // Holds the mutex; after it, notifies the runner's thread if that has to wake up.
  class Lock {
   public:
    explicit Lock(RunnerInbox& inbox) : inbox_(inbox), lock_(inbox.mutex_) {}
    ~Lock() {
      const bool notify = std::exchange(inbox_.notify_, false);
      lock_.unlock();
      if (notify) inbox_.work_.notify_one();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    RunnerInbox& inbox_;
    std::unique_lock<std::mutex> lock_;
  };

  // "Locked": mutex_ is held, by a Lock where a thread may have to wake up.
  void WakeLocked();
  // `node` holds the call alone; it is empty when the call was taken.
  Refusal EnqueueLocked(Calls& node);
  Refusal QueueFullLocked() const;
  // One of kUnreadyReasons, or empty.
  std::string_view WhyUnreadyLocked(Time now, Progress::Duration limit) const;
  bool IdleLocked() const;
  // Ends calls that never ran.
  void Refuse(Calls& calls, const absl::Status& status) const;

  const EngineContext& context_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable work_;
  std::condition_variable idle_;
  AdmissionQueue queue_;
  Calls waiting_;  // the calls of queue_
  Mail mail_;
  bool awake_ = false;  // a round is due
  bool draining_ = false;
  bool stopping_ = false;
  bool asleep_ = false;
  bool notify_ = false;     // work_, once the mutex is released
  RunnerCounts published_;  // as of the last round
  // When the last call was refused for want of memory; absent once one has started.
  std::optional<Time> memory_refused_;
  mutable Progress progress_;  // but for signs
};

}  // namespace mnemon
