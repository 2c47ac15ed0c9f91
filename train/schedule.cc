// SPDX-License-Identifier: MIT
#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mnemon {
namespace {

// The part of the warm-up that `done` updates make up.
double WarmUp(double done, int64_t warmup) {
  return warmup == 0 ? 1.0 : std::min(1.0, done / static_cast<double>(warmup));
}

}  // namespace

double LearningRate(const ScheduleOptions& options, int64_t d_model, int64_t step,
                    int64_t steps) {
  const double s = static_cast<double>(step);
  switch (options.kind) {
    case ScheduleKind::kConstant:
      return options.lr * WarmUp(s + 1, options.warmup);
    case ScheduleKind::kCosine: {
      const double half_turn = std::numbers::pi * s / static_cast<double>(steps);
      const double fall = 0.5 * (1.0 + std::cos(half_turn));
      return options.lr * (options.min_ratio + (1.0 - options.min_ratio) * fall) *
             WarmUp(s, options.warmup);
    }
    case ScheduleKind::kNoam:
      break;
  }
  const double t = s + 1;
  return options.lr * std::pow(static_cast<double>(d_model), -0.5) *
         std::min(std::pow(t, -0.5),
                  t * std::pow(static_cast<double>(options.warmup), -1.5));
}

}  // namespace mnemon
