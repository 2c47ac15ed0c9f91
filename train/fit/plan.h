// SPDX-License-Identifier: MIT
// The course of a run: how much of it is over, and what is due after an update.
#pragma once

#include <cstdint>

#include "train/data/config.h"
#include "train/fit/schedule.h"

namespace mnemon {

// What a run has done so far, over all resumptions.
struct Passed {
  int64_t updates = 0;
  double seconds = 0;
};

// What is due after an update.
struct Due {
  bool last = false;  // no further update
  bool validation = false;
  bool checkpoint = false;
};

// A function of the updates with train.steps and train.epochs, and of the time with
// train.seconds: such a run ends its schedule in time at any speed of the machine.
class Plan {
 public:
  // `before`: the updates of the curriculum, which come before the epochs.
  Plan(const TrainConfig& config, int64_t before, int64_t updates_per_epoch);

  // Updates of the whole run; 0 with train.seconds.
  int64_t updates() const { return updates_; }
  // Seconds of the whole run; 0 without train.seconds.
  int64_t seconds() const { return seconds_; }

  // The position in the schedule. The run is over when its part is 1.
  RunPosition Position(const Passed& passed) const;
  // What is due after an update that ended at `now`. `validated`: the end of the last
  // validation.
  Due DueAfter(const Passed& now, const Passed& validated) const;

 private:
  bool ValidationDue(const Passed& now, const Passed& validated) const;

  const int64_t updates_;
  const int64_t seconds_;
  const int64_t validate_every_;    // updates; 0 = a tenth of the run
  const int64_t checkpoint_every_;  // updates; 0 = at each validation
};

}  // namespace mnemon
