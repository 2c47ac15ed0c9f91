// SPDX-License-Identifier: MIT
// The number of updates of a run, fixed before the first one.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "train/config.h"
#include "train/learner.h"
#include "train/task.h"

namespace mnemon {

// A run with train.seconds = N ends by N times this, however slow the machine gets.
inline constexpr double kOvertime = 1.15;

struct Plan {
  int64_t updates = 0;
  // Measured, for train.seconds only: seconds of one update, and of one stop for
  // validation, sample and checkpoint.
  double update_seconds = 0;
  double stop_seconds = 0;
};

// train.seconds is turned into updates by trying some on a learner that is thrown away,
// so the run itself does not depend on the measurement; `spent` seconds are gone
// already.
absl::StatusOr<Plan> MakePlan(const TrainConfig& config, const Task& task,
                              WorkerPool& pool, at::Device device,
                              int64_t updates_per_epoch, double spent,
                              const Clock& clock);

// Updates between validations, and between checkpoints.
int64_t ValidateEvery(const TrainConfig& config, int64_t planned);
int64_t CheckpointEvery(const TrainConfig& config, int64_t planned);

}  // namespace mnemon
