// SPDX-License-Identifier: MIT
// What other threads have for one model's runner, and what they may know of it: under
// one mutex.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
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
#include "server/run/runner_calls.h"
#include "server/run/runner_counts.h"
#include "server/run/runner_scope.h"
#include "server/tasks/state_task.h"
#include "server/waiting/progress.h"

namespace mnemon {

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
  // Something has changed that the next round checks.
  void Wake();
  // The consumer of the call has taken the end.
  void HandOver(const std::shared_ptr<Call>& call);
  // The consumer of the call has cancelled it: a waiting one ends.
  void Cancel(const std::shared_ptr<Call>& call);
  // Ends a waiting call with `status`; nothing where it does not wait.
  void RefuseWaiting(const std::shared_ptr<Call>& call, const absl::Status& status);
  // The runner's thread is to end; calls are refused from now on.
  void Stop();
  // Fills in what the inbox knows. `limit`: EngineContext::ProgressLimit.
  void Describe(ModelStats& stats, Time now, Progress::Duration limit) const;

  // The runner's thread.
  // Waits for something to do, but not when there is more to do anyway (`busy`), and
  // not behind `due`. Appends what has come to `mail`. False: it is to end.
  bool Await(bool busy, std::optional<Time> due, Mail& mail);
  // Waits a moment; false: nothing has come.
  bool AwaitFor(std::chrono::nanoseconds most);
  // The runner gets on with its work.
  void SignProgress() { progress_.Sign(); }
  // Publishes what other threads read, and gives permits to waiting calls; those that
  // would be too late end. Takes the ends of the round from `calls`.
  struct RoundEnd {
    const RunnerCounts& counts;
    RunnerCalls& calls;
    bool admitted = false;  // a call has started
    std::optional<Duration> step_interval;
    int64_t step_tokens = 0;
  };
  void Publish(const RoundEnd& end);
  // Ends all calls that wait for a permit with `status`.
  void RefuseAll(const absl::Status& status);
  // Takes tasks that nobody will do.
  void TakeTasks(std::list<std::shared_ptr<StateTask>>& tasks);
  // How long a call would wait that waits for blocks and can no longer end before its
  // deadline; absent: it can.
  std::optional<Duration> WaitOfLateStart(const Call& call) const;
  Duration TimeToNextEnd() const;
  const LoadEstimate& estimate() const { return queue_.estimate(); }
  // Whether a pinned state will be given back whatever the calls do: one that a replay
  // is compared with stays until that ends.
  bool PinsEnd(const RunnerScope& scope) const;

 private:
  // Why a call is not taken, as found under the mutex. Its status is made after it.
  struct Refusal {
    enum class Reason {
      kDraining,
      kCancelled,
      kQueueFull,
      kDeadline,
    } reason;
    int64_t waiting = 0;  // calls
    Duration wait{0};     // of a call that would join the queue now
  };
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
  void HandOverLocked(const std::shared_ptr<Call>& call);
  // Moves a waiting call to the end of `to`.
  void LeaveLocked(Call& call, Calls& to);
  // `node` holds the call alone; it is empty when the call was taken.
  std::optional<Refusal> EnqueueLocked(Calls& node);
  Refusal RefusalLocked(Refusal::Reason reason) const;
  static absl::Status StatusOf(const Refusal& refusal);
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
