// SPDX-License-Identifier: MIT
// The learning rate as a pure function of the update.
#pragma once

#include <cstdint>

#include "train/config.h"

namespace mnemon {

// Rate of update `step` (0 is the first) in a run of `steps` updates.
//   constant  lr, with min(1, (step + 1) / warmup) before
//   cosine    lr (r + (1 - r) (1 + cos(pi step / steps)) / 2) min(1, step / warmup)
//   with
//             r = min_ratio: the first update of a warm-up has rate 0
//   noam      lr D^-0.5 min(t^-0.5, t warmup^-1.5), t = step + 1; D = `d_model`
double LearningRate(const ScheduleOptions& options, int64_t d_model, int64_t step,
                    int64_t steps);

}  // namespace mnemon
