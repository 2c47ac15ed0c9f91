// SPDX-License-Identifier: MIT
#include "train/fit/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mnemon {
namespace {

// The longest warm-up, as a part of a run that is planned by time.
constexpr double kLongestWarmUp = 0.2;

// The part of the warm-up that is over once `done` updates of it are made.
double WarmUp(double done, int64_t warmup, const RunPosition& position) {
  if (warmup == 0) return 1.0;
  const double by_updates = done / static_cast<double>(warmup);
  const double by_time = position.part_of_time ? position.part / kLongestWarmUp : 0.0;
  return std::min(1.0, std::max(by_updates, by_time));
}

}  // namespace

double LearningRate(const ScheduleOptions& options, int64_t d_model,
                    const RunPosition& position) {
  const double s = static_cast<double>(position.step);
  switch (options.kind) {
    case ScheduleKind::kConstant:
      return options.lr * WarmUp(s + 1, options.warmup, position);
    case ScheduleKind::kCosine: {
      const double fall = 0.5 * (1.0 + std::cos(std::numbers::pi * position.part));
      return options.lr * (options.min_ratio + (1.0 - options.min_ratio) * fall) *
             WarmUp(s, options.warmup, position);
    }
    case ScheduleKind::kNoam:
      break;
  }
  const auto warmup = static_cast<double>(options.warmup);
  const double t = std::max(s + 1, warmup * WarmUp(s + 1, options.warmup, position));
  return options.lr * std::pow(static_cast<double>(d_model), -0.5) *
         std::min(std::pow(t, -0.5), t * std::pow(warmup, -1.5));
}

}  // namespace mnemon
