// SPDX-License-Identifier: MIT
#include "server/engine/load_estimate.h"

#include <algorithm>
#include <cmath>

namespace mnemon {

void LoadEstimate::RecordStep(Duration interval) {
  step_ = steps_ == 0 ? interval : step_ + (interval - step_) * kStepWeight;
  steps_ = std::min(steps_ + 1, kFewSteps);
}

void LoadEstimate::RecordEnd(int64_t generated) {
  const auto count = static_cast<double>(generated);
  generated_ = generated_ ? *generated_ + (count - *generated_) * kCallWeight : count;
}

void LoadEstimate::RecordAccuracy(Duration estimated, Duration actual) {
  // Shorter ones say more about the clock than about the load.
  if (estimated < Duration(0.001)) return;
  const double ratio =
      std::clamp(actual / estimated, kLeastCorrection, kMostCorrection);
  correction_ += (ratio - correction_) * kAccuracyWeight;
}

int64_t LoadEstimate::UnitsOf(int64_t prompt_tokens, int64_t max_tokens) const {
  const int64_t expected =
      generated_ ? std::min(max_tokens, static_cast<int64_t>(std::ceil(*generated_)))
                 : std::min(max_tokens, kFewTokens);
  return (prompt_tokens + chunk_ - 1) / chunk_ + expected;
}

LoadEstimate::Duration LoadEstimate::WaitTime(int64_t waiting_units,
                                              int64_t running_units,
                                              int64_t running) const {
  if (running == 0) return Duration(0);
  // Running calls are spread over their whole lengths: the first to end has left, on
  // average, one part in `running` of twice the mean that is left.
  const double first_end =
      2.0 * static_cast<double>(running_units) / static_cast<double>(running * running);
  return step_ * (first_end +
                  static_cast<double>(waiting_units) / static_cast<double>(running));
}

}  // namespace mnemon
