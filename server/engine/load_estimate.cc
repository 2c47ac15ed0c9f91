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
  // Of n running calls with uniformly distributed work left, the least is on average
  // 2 / (n + 1) of the mean.
  const double mean_left =
      static_cast<double>(running_units) / static_cast<double>(running);
  const double first_end = 2 * mean_left / static_cast<double>(running + 1);
  return step_ * (first_end +
                  static_cast<double>(waiting_units) / static_cast<double>(running));
}

}  // namespace mnemon
