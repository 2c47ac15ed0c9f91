// SPDX-License-Identifier: MIT
#include "train/fit/plan.h"

#include <algorithm>
#include <cmath>

namespace mnemon {
namespace {

// Stops for validation when their distance is not configured.
constexpr int64_t kDefaultStops = 10;

int64_t PlannedUpdates(const DurationOptions& duration, int64_t before,
                       int64_t updates_per_epoch) {
  return duration.steps > 0 ? duration.steps
                            : before + duration.epochs * updates_per_epoch;
}

}  // namespace

Plan::Plan(const TrainConfig& config, int64_t before, int64_t updates_per_epoch)
    : updates_(PlannedUpdates(config.duration, before, updates_per_epoch)),
      seconds_(config.duration.seconds),
      validate_every_(config.validate_every),
      checkpoint_every_(config.checkpoint_every) {}

RunPosition Plan::Position(const Passed& passed) const {
  const double part = seconds_ > 0
                          ? passed.seconds / static_cast<double>(seconds_)
                          : static_cast<double>(passed.updates) /
                                static_cast<double>(std::max<int64_t>(1, updates_));
  return {.step = passed.updates,
          .part = std::min(1.0, part),
          .part_of_time = seconds_ > 0};
}

bool Plan::ValidationDue(const Passed& now, const Passed& validated) const {
  if (validate_every_ > 0) return now.updates % validate_every_ == 0;
  if (seconds_ == 0) {
    const int64_t every = (updates_ + kDefaultStops - 1) / kDefaultStops;
    return now.updates % std::max<int64_t>(1, every) == 0;
  }
  const auto stops = [&](const Passed& passed) {
    return std::floor(kDefaultStops * Position(passed).part);
  };
  return stops(now) > stops(validated);
}

Due Plan::DueAfter(const Passed& now, const Passed& validated) const {
  Due due = {.last = Position(now).part >= 1};
  due.validation = due.last || ValidationDue(now, validated);
  due.checkpoint =
      due.last ||
      (checkpoint_every_ > 0 ? now.updates % checkpoint_every_ == 0 : due.validation);
  return due;
}

}  // namespace mnemon
