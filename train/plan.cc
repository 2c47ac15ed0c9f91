// SPDX-License-Identifier: MIT
#include "train/plan.h"

#include <algorithm>

#include "base/status_macros.h"
#include "train/schedule.h"

namespace mnemon {
namespace {

constexpr int kWarmUpUpdates = 3;
constexpr int kMeasuredUpdates = 20;
// No more than this part of the whole time goes into measuring.
constexpr double kMeasuringShare = 0.05;
// Stops for validation when their distance is not configured.
constexpr int64_t kDefaultStops = 10;

double SecondsSince(const Clock& clock, std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(clock.Now() - start).count();
}

absl::StatusOr<Plan> Measure(const TrainConfig& config, const Task& task,
                             WorkerPool& pool, at::Device device, const Clock& clock) {
  MNEMON_ASSIGN_OR_RETURN(std::unique_ptr<Learner> trial,
                          Learner::Create(config, task, pool, device));
  const double limit = kMeasuringShare * static_cast<double>(config.duration.seconds);
  const auto begin = clock.Now();
  auto start = begin;
  int measured = -kWarmUpUpdates;
  while (measured < kMeasuredUpdates && SecondsSince(clock, begin) < limit) {
    if (measured == 0) start = clock.Now();
    // A rate of 0 costs as much as any other and cannot diverge.
    MNEMON_RETURN_IF_ERROR(trial->Update(0).status());
    ++measured;
  }
  Plan plan;
  // Updates so slow that the warm-up took all the time: they are all there is.
  plan.update_seconds = measured > 0
                            ? SecondsSince(clock, start) / measured
                            : SecondsSince(clock, begin) / (measured + kWarmUpUpdates);
  start = clock.Now();
  MNEMON_RETURN_IF_ERROR(trial->Validate().status());
  MNEMON_RETURN_IF_ERROR(trial->Sample().status());
  CheckpointContent content;
  MNEMON_RETURN_IF_ERROR(trial->Save(content));
  plan.stop_seconds = SecondsSince(clock, start);
  return plan;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const TrainConfig& config, const Task& task,
                              WorkerPool& pool, at::Device device,
                              int64_t updates_per_epoch, double spent,
                              const Clock& clock) {
  const DurationOptions& duration = config.duration;
  if (duration.steps > 0) return Plan{.updates = duration.steps};
  if (duration.epochs > 0) return Plan{.updates = duration.epochs * updates_per_epoch};
  const auto start = clock.Now();
  MNEMON_ASSIGN_OR_RETURN(Plan plan, Measure(config, task, pool, device, clock));
  double left =
      static_cast<double>(duration.seconds) - spent - SecondsSince(clock, start);
  double per_update = plan.update_seconds;
  if (config.validate_every == 0) left -= plan.stop_seconds * kDefaultStops;
  for (int64_t every : {config.validate_every, config.checkpoint_every}) {
    if (every > 0) per_update += plan.stop_seconds / static_cast<double>(every);
  }
  plan.updates = std::max<int64_t>(1, static_cast<int64_t>(left / per_update));
  return plan;
}

int64_t ValidateEvery(const TrainConfig& config, int64_t planned) {
  if (config.validate_every > 0) return config.validate_every;
  return std::max<int64_t>(1, (planned + kDefaultStops - 1) / kDefaultStops);
}

int64_t CheckpointEvery(const TrainConfig& config, int64_t planned) {
  return config.checkpoint_every > 0 ? config.checkpoint_every
                                     : ValidateEvery(config, planned);
}

}  // namespace mnemon
