// SPDX-License-Identifier: MIT
// The runner of one loaded encoder: a thread with its own lock and queue, which
// computes one prediction after the other in pieces, taking turns on the thread pool
// with other models. It takes and gives back the memory of one without the turn.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory/byte_budget.h"
#include "server/requests/request.h"
#include "server/run/engine_context.h"
#include "server/run/model_stats.h"
#include "server/waiting/progress.h"

namespace mnemon {

// Gets the output of a prediction, or why it ended: CANCELLED; DEADLINE_EXCEEDED;
// UNAVAILABLE, DRAINING; RESOURCE_EXHAUSTED: DEADLINE_UNREACHABLE, while others wait,
// MEMORY_LIMIT, OUT_OF_MEMORY; INTERNAL, MODEL_FAILURE, of an exception; an error of
// Predictor::Begin or Prediction::Advance.
using OnPredicted = std::function<void(absl::StatusOr<Predictor::Output>)>;

// One Predict call. Shared by the runner and its caller, who may cancel it.
class PredictJob final : public Callback {
 public:
  using Time = std::chrono::steady_clock::time_point;

  PredictJob(Predictor::Input input, const PredictCost& cost,
             std::optional<Time> deadline, OnPredicted on_done, ByteCharge charge = {})
      : charge_(std::move(charge)),
        input_(std::move(input)),
        bytes_(static_cast<int64_t>(input_.tokens.size() * sizeof(int32_t) +
                                    input_.explicit_mask.size())),
        cost_(cost.multiply_adds),
        peak_bytes_(cost.peak_bytes),
        deadline_(deadline),
        on_done_(std::move(on_done)) {}

  // Calls on_done with the result, whose memory is no longer counted then.
  void RunCallback() override {
    on_done_(std::move(result_));
    charge_.Set(0);
  }

 private:
  friend class PredictRunner;

  // Bytes of the input, then of the whole prediction, then of its answer; as input_.
  ByteCharge charge_;
  Predictor::Input input_;              // owned by the runner once taken
  const int64_t bytes_;                 // of the input
  const int64_t cost_;                  // multiply-adds
  const int64_t peak_bytes_;            // of all that it takes
  const std::optional<Time> deadline_;  // checked before each piece
  const OnPredicted on_done_;
  std::atomic<bool> cancelled_ = false;
  // How long others wait, where it would end after its deadline. The runner's.
  std::optional<std::chrono::duration<double>> too_late_;
  // Written before the job is queued as a callback.
  absl::StatusOr<Predictor::Output> result_ = absl::UnknownError("not run");
};

// Shared, because a caller may cancel at any time.
class PredictRunner {
 public:
  // `model.predictor` is set. RESOURCE_EXHAUSTED when no thread can be started.
  static absl::StatusOr<std::shared_ptr<PredictRunner>> Start(
      size_t index, const EngineModel& model,
      const std::shared_ptr<const EngineContext>& context);
  ~PredictRunner();

  const EngineModel& model() const { return model_; }

  // Any thread. on_done is called once, on a callback thread, but where this returns an
  // error: UNAVAILABLE, DRAINING; RESOURCE_EXHAUSTED: QUEUE_FULL, DEADLINE_UNREACHABLE,
  // MEMORY_LIMIT.
  absl::Status Enqueue(const std::shared_ptr<PredictJob>& job);
  // Ends the job with CANCELLED; one that runs, after its present piece.
  void Cancel(const std::shared_ptr<PredictJob>& job);
  // Refuses jobs from now on; those queued go on.
  void Drain();
  // True when no job waits or runs; waits until `deadline` at most.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline);
  // Ends all jobs with UNAVAILABLE and joins the thread.
  void Stop();
  ModelStats Stats() const;

 private:
  using Duration = std::chrono::duration<double>;

  PredictRunner(size_t index, const EngineModel& model,
                const std::shared_ptr<const EngineContext>& context);

  void Run();
  std::shared_ptr<PredictJob> Next();  // null: the runner stops
  // `multiply_adds`: those that were done, whatever the result is.
  absl::StatusOr<Predictor::Output> Compute(PredictJob& job, int64_t& multiply_adds);
  // Why the job ends early; OK: it goes on.
  absl::Status Interrupted(const PredictJob& job) const;
  // What `cost` takes, by the predictions so far; 0: none was measured.
  Duration EstimateLocked(int64_t cost) const;
  // For a prediction that would join the queue now.
  Duration WaitTimeLocked() const {
    return EstimateLocked(waiting_cost_ + running_cost_);
  }
  bool RunsAtOnceLocked() const { return queue_.empty() && running_cost_ == 0; }
  // Whether it would end after its deadline if it began after `wait`.
  bool TooLateLocked(const PredictJob& job, Duration wait) const;
  // Whether the queue has no room for one with this input (QUEUE_FULL).
  bool QueueFullLocked(int64_t input_bytes) const;
  // One of kUnreadyReasons, or empty. `limit`: EngineContext::ProgressLimit.
  std::string_view WhyUnreadyLocked(std::chrono::steady_clock::time_point now,
                                    Progress::Duration limit) const;

  const size_t index_;
  const EngineModel model_;
  const std::shared_ptr<const EngineContext> context_;

  mutable std::mutex mutex_;  // guards what follows, up to progress_
  std::condition_variable work_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<PredictJob>> queue_;
  int64_t waiting_cost_ = 0;
  int64_t waiting_bytes_ = 0;
  int64_t running_cost_ = 0;  // of the one that runs; 0: none does
  // Sums over about the last kMemory seconds of computing. Two sums, not ratios of
  // single predictions: what a small one takes is mostly not for its cost.
  double measured_seconds_ = 0;
  double measured_cost_ = 0;
  bool draining_ = false;
  int64_t predictions_ = 0;
  int64_t tokens_ = 0;
  mutable Progress progress_;  // but for signs

  std::atomic<bool> stopping_ = false;  // set under mutex_
  PoolTurns::Member turn_;              // owned by the runner's thread
  std::thread thread_;  // started by Start; joined by Stop, which one thread calls
};

}  // namespace mnemon
