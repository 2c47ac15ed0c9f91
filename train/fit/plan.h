// SPDX-License-Identifier: MIT
// The course of a run: how much of it is over, and what is due behind an update.
#pragma once

#include <cstdint>

#include "train/data/config.h"
#include "train/fit/schedule.h"

namespace mnemon {

// What a run has behind it, before it was resumed too.
struct Passed {
  int64_t updates = 0;
  double seconds = 0;
};

// What follows an update.
struct Due {
  bool last = false;  // no further update
  bool validation = false;
  bool checkpoint = false;
};

// With train.steps or epochs a function of the updates alone; with train.seconds of the
// time, so that the run ends its schedule on a machine of any speed and load.
class Plan {
 public:
  // `before`: the updates of the curriculum, which epochs come behind.
  Plan(const TrainConfig& config, int64_t before, int64_t updates_per_epoch);

  // Of the whole run; 0 with train.seconds.
  int64_t updates() const { return updates_; }
  // Of the whole run; 0 without train.seconds.
  int64_t seconds() const { return seconds_; }

  // A run whose part is 1 is over.
  RunPosition Position(const Passed& passed) const;
  // Behind an update that ended at `now`; the last validation was over at `validated`.
  Due DueBehind(const Passed& now, const Passed& validated) const;

 private:
  bool ValidationDue(const Passed& now, const Passed& validated) const;

  const int64_t updates_;
  const int64_t seconds_;
  const int64_t validate_every_;    // updates; 0 = every tenth of the run
  const int64_t checkpoint_every_;  // updates; 0 = at each validation
};

}  // namespace mnemon
