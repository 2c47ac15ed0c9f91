// SPDX-License-Identifier: MIT
#include "model/program/step/way_tuner.h"

#include <bit>
#include <cstdlib>
#include <utility>

namespace mnemon {

size_t WayTuner::Index(int64_t together) {
  return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(together - 1)));
}

StepPartition::Way WayTuner::Begin(StepPartition::Way other, int64_t together) {
  using Way = StepPartition::Way;
  if (other == Way::kByOperation) return other;
  Trial& trial = trials_[Index(together)];
  if (trial.kept > 0) {
    --trial.kept;
    return trial.other ? other : Way::kByOperation;
  }
  timed_ = &trial;
  began_ = now_();
  return GoesOther(trial) ? other : Way::kByOperation;
}

void WayTuner::End(int64_t rows) {
  if (timed_ == nullptr) return;
  const std::chrono::duration<double, std::nano> spent = now_() - began_;
  Trial& trial = *std::exchange(timed_, nullptr);
  const double each = spent.count() / static_cast<double>(rows);
  if (!trial.second) {
    trial.first = each;
    trial.second = true;
    return;
  }
  const double other = GoesOther(trial) ? each : trial.first;
  const double by_operation = GoesOther(trial) ? trial.first : each;
  trial.ahead += (other < by_operation) - (other > by_operation);
  trial.second = false;
  ++trial.pairs;
  if (std::abs(trial.ahead) < kAhead && trial.pairs < kMostPairs) return;
  trial = {.other = trial.ahead > 0, .kept = kKept};
}

}  // namespace mnemon
