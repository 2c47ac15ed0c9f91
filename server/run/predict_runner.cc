// SPDX-License-Identifier: MIT
#include "server/run/predict_runner.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

// Seconds of computing after which a measurement has 1/e of its weight.
constexpr double kMemory = 10;

int64_t BytesOf(const Predictor::Output& output) {
  size_t floats = output.logits.capacity();
  for (const UnsetFloats& map : output.maps) floats += map.capacity();
  return static_cast<int64_t>(floats * sizeof(float));
}

}  // namespace

absl::StatusOr<std::shared_ptr<PredictRunner>> PredictRunner::Start(
    size_t index, const EngineModel& model,
    const std::shared_ptr<const EngineContext>& context) {
  const std::shared_ptr<PredictRunner> runner(new PredictRunner(index, model, context));
  try {
    runner->thread_ = std::thread([self = runner.get()] { self->Run(); });
  } catch (const std::system_error&) {
    return absl::ResourceExhaustedError("the thread of a model cannot be started");
  }
  return runner;
}

PredictRunner::PredictRunner(size_t index, const EngineModel& model,
                             const std::shared_ptr<const EngineContext>& context)
    : index_(index), model_(model), context_(context) {}

PredictRunner::~PredictRunner() { Stop(); }

void PredictRunner::Stop() {
  {
    std::lock_guard lock(mutex_);
    draining_ = stopping_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void PredictRunner::Drain() {
  std::lock_guard lock(mutex_);
  draining_ = true;
}

bool PredictRunner::WaitIdle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [&] { return RunsAtOnceLocked(); });
}

ModelStats PredictRunner::Stats() const {
  ModelStats stats{.model = model_.facts.name,
                   .architecture = model_.facts.architecture,
                   .max_waiting = context_->options.max_queue,
                   .weight_bytes = model_.predictor->weight_bytes()};
  const Progress::Duration limit = context_->ProgressLimit();
  const auto now = context_->options.clock->Now();
  std::lock_guard lock(mutex_);
  stats.running = running_cost_ > 0 ? 1 : 0;
  stats.waiting = static_cast<int64_t>(queue_.size());
  stats.wait = WaitTimeLocked();
  stats.unready = WhyUnreadyLocked(now, limit);
  stats.ready = stats.unready.empty();
  stats.steps = predictions_;
  stats.tokens_computed = tokens_;
  return stats;
}

std::string_view PredictRunner::WhyUnreadyLocked(
    std::chrono::steady_clock::time_point now, Progress::Duration limit) const {
  // Asked in any case: it remembers when it was.
  const Progress::Duration silence = progress_.Silence(!RunsAtOnceLocked(), now);
  if (draining_) return "draining";
  if (silence > limit) return "no progress";
  if (RunsAtOnceLocked() || context_->options.max_queue == 0 ||
      !QueueFullLocked(/*input_bytes=*/1)) {
    return "";
  }
  return "queue full";
}

PredictRunner::Duration PredictRunner::EstimateLocked(int64_t cost) const {
  if (measured_cost_ == 0) return Duration(0);
  return Duration(measured_seconds_ / measured_cost_ * static_cast<double>(cost));
}

bool PredictRunner::QueueFullLocked(int64_t input_bytes) const {
  const EngineOptions& options = context_->options;
  return static_cast<int64_t>(queue_.size()) >= options.max_queue ||
         WaitTimeLocked() > options.max_wait ||
         waiting_bytes_ + input_bytes > options.queue_bytes;
}

bool PredictRunner::TooLateLocked(const PredictJob& job, Duration wait) const {
  return job.deadline_ && wait + EstimateLocked(job.cost_) >
                              *job.deadline_ - context_->options.clock->Now();
}

absl::Status PredictRunner::Enqueue(const std::shared_ptr<PredictJob>& job) {
  if (!job->charge_.TrySet(job->bytes_)) {
    return context_->MemoryLimit(job->bytes_);
  }
  std::unique_lock lock(mutex_);
  const Duration wait = WaitTimeLocked();
  const auto waiting = static_cast<int64_t>(queue_.size());
  const bool draining = draining_;
  const bool full = !RunsAtOnceLocked() && QueueFullLocked(job->bytes_);
  if (draining || full || (!RunsAtOnceLocked() && TooLateLocked(*job, wait))) {
    lock.unlock();  // the status is made without it
    if (draining) return engine_errors::Draining();
    return full ? engine_errors::QueueFull(waiting, wait)
                : engine_errors::DeadlineUnreachable(wait);
  }
  queue_.push_back(job);
  waiting_cost_ += job->cost_;
  waiting_bytes_ += job->bytes_;
  lock.unlock();
  work_.notify_one();
  return absl::OkStatus();
}

void PredictRunner::Cancel(const std::shared_ptr<PredictJob>& job) {
  job->cancelled_ = true;
  {
    std::lock_guard lock(mutex_);
    if (std::erase(queue_, job) == 0) return;
    waiting_cost_ -= job->cost_;
    waiting_bytes_ -= job->bytes_;
    if (RunsAtOnceLocked()) idle_.notify_all();
  }
  job->result_ = engine_errors::Cancelled();
  context_->callbacks.Post(job);
}

std::shared_ptr<PredictJob> PredictRunner::Next() {
  std::unique_lock lock(mutex_);
  if (queue_.empty()) idle_.notify_all();
  work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  progress_.Sign();
  if (queue_.empty()) return nullptr;
  std::shared_ptr<PredictJob> job = std::move(queue_.front());
  queue_.pop_front();
  waiting_cost_ -= job->cost_;
  waiting_bytes_ -= job->bytes_;
  // The last one takes no time from others, and the estimate learns from it.
  if (!queue_.empty() && TooLateLocked(*job, Duration(0))) {
    job->too_late_ = WaitTimeLocked();
  }
  running_cost_ = std::max<int64_t>(1, job->cost_);
  return job;
}

void PredictRunner::Run() {
  while (const std::shared_ptr<PredictJob> job = Next()) {
    const auto tokens = static_cast<int64_t>(job->input_.tokens.size());
    const auto start = context_->options.clock->Now();
    int64_t multiply_adds = 0;
    if (job->too_late_) {
      job->result_ = CatchOutOfMemory(
          {}, [&] { return engine_errors::DeadlineUnreachable(*job->too_late_); });
    } else {
      job->result_ = Compute(*job, multiply_adds);
    }
    const Duration took = context_->options.clock->Now() - start;
    {
      std::lock_guard lock(mutex_);
      if (multiply_adds > 0) {
        const double kept = std::exp(-took.count() / kMemory);
        measured_seconds_ = measured_seconds_ * kept + took.count();
        measured_cost_ = measured_cost_ * kept + static_cast<double>(multiply_adds);
      }
      if (job->result_.ok()) {
        ++predictions_;
        tokens_ += tokens;
      }
      running_cost_ = 0;
    }
    context_->callbacks.Post(job);
  }
}

absl::Status PredictRunner::Interrupted(const PredictJob& job) const {
  if (stopping_) return engine_errors::Draining();
  if (job.cancelled_) return engine_errors::Cancelled();
  if (job.deadline_ && *job.deadline_ <= context_->options.clock->Now()) {
    return absl::DeadlineExceededError("the deadline has passed");
  }
  return absl::OkStatus();
}

absl::StatusOr<Predictor::Output> PredictRunner::Compute(PredictJob& job,
                                                         int64_t& multiply_adds) try {
  MNEMON_RETURN_IF_ERROR(Interrupted(job));
  if (!job.charge_.TrySet(job.peak_bytes_)) {
    return context_->MemoryLimit(job.peak_bytes_);
  }
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Prediction> prediction,
                          model_.predictor->Begin(std::move(job.input_)));
  const auto compute = [&]() -> absl::StatusOr<Predictor::Output> {
    const absl::Cleanup leave = [this] { context_->turns.Leave(turn_); };
    while (true) {
      MNEMON_RETURN_IF_ERROR(Interrupted(job));
      progress_.Sign();
      const PoolTurns::Piece piece(context_->turns, turn_);
      MNEMON_ASSIGN_OR_RETURN(const bool done, prediction->Advance());
      multiply_adds = prediction->multiply_adds();
      if (done) return prediction->TakeOutput();
    }
  };
  absl::StatusOr<Predictor::Output> output = compute();
  prediction = nullptr;  // frees what only the computation needed
  job.charge_.Set(output.ok() ? BytesOf(*output) : 0);
  return output;
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
} catch (const std::exception& e) {
  // The text of a foreign exception may hold paths and addresses: it goes to the log.
  context_->callbacks.Post(LogCallback("model_predict_failed", e.what()));
  return CatchOutOfMemory({}, [] {
    return MakeError(absl::StatusCode::kInternal, "the model failed to predict",
                     {.reason = "MODEL_FAILURE"});
  });
}

}  // namespace mnemon
