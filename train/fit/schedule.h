// SPDX-License-Identifier: MIT
// The learning rate as a pure function of the position in the run.
#pragma once

#include <cstdint>

#include "train/data/config.h"

namespace mnemon {

// Where a run is before an update.
struct RunPosition {
  int64_t step = 0;           // 0 is the first
  double part = 0;            // of the run that is over, 0 to 1
  bool part_of_time = false;  // rather than of the updates
};

// Rate of update s = `step`; p = `part`.
//   constant  lr, with min(1, (s + 1) / warmup) before
//   cosine    lr (r + (1 - r) (1 + cos(pi p)) / 2) min(1, s / warmup)
//   with
//             r = min_ratio: the first update of a warm-up has rate 0
//   noam      lr D^-0.5 min(t^-0.5, t warmup^-1.5), t = s + 1; D = `d_model`
// Where the part is one of time, a fifth of it ends a warm-up that so few updates have
// not ended.
double LearningRate(const ScheduleOptions& options, int64_t d_model,
                    const RunPosition& position);

}  // namespace mnemon
