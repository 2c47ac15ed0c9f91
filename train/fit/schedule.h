// SPDX-License-Identifier: MIT
// The learning rate as a pure function of the position in the run.
#pragma once

#include <cstdint>

#include "train/data/config.h"

namespace mnemon {

// The position of a run before an update.
struct RunPosition {
  int64_t step = 0;           // 0 is the first
  double part = 0;            // fraction of the run that is over
  bool part_of_time = false;  // `part` is one of the time, else of the updates
};

// Rate of update s = `step`; p = `part`, r = min_ratio.
//   constant  lr min(1, (s + 1) / warmup)
//   cosine    lr (r + (1 - r) (1 + cos(pi p)) / 2) min(1, s / warmup): the first update
//             of a warm-up has rate 0
//   noam      lr D^-0.5 min(t^-0.5, t warmup^-1.5), t = s + 1; D = `d_model`
// If `part` is one of the time, a warm-up ends after a fifth of the time at the latest.
double LearningRate(const ScheduleOptions& options, int64_t d_model,
                    const RunPosition& position);

}  // namespace mnemon
