// SPDX-License-Identifier: MIT
// Autotuner of StepPartition::Way: times steps of both possible ways and keeps the
// faster one. No constant is right for all: the choice depends on the processor's
// caches, the number of workers, the model and the rows. The bits of a step do not
// depend on the way.
//
// Steps with similar numbers of rows (the same power of two) are tuned together. A
// trial compares pairs of steps, one of each way, by their time per row, until one way
// is ahead by kAhead pairs or kMostPairs have run; after kKept steps there is another
// trial. A tie goes to kByOperation.
//
// Used by one thread at a time. Does not allocate.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "model/program/step/step_partition.h"

namespace mnemon {

class WayTuner {
 public:
  static constexpr int kAhead = 8;
  static constexpr int kMostPairs = 40;
  static constexpr int kKept = 10000;

  using Time = std::chrono::steady_clock::time_point;
  using Now = Time (*)();

  // `now`: the clock.
  explicit WayTuner(Now now = &std::chrono::steady_clock::now) : now_(now) {}

  // Begins a step and returns its way, kByOperation or `other`. `together`: rows that
  // one operation has, at least 1; the same number always comes with the same `other`
  // or with kByOperation. End must follow.
  StepPartition::Way Begin(StepPartition::Way other, int64_t together);
  // Ends the step, which had `rows` rows in all.
  void End(int64_t rows);

 private:
  struct Trial {
    bool other = false;   // `other` won the last trial
    bool second = false;  // the next step is the second of a pair
    int pairs = 0;
    int ahead = 0;     // pairs that `other` won minus pairs that it lost
    int kept = 0;      // steps until the next trial
    double first = 0;  // nanoseconds per row of the first step of a pair
  };

  static size_t Index(int64_t together);
  // Whether the next step of a running trial goes the other way, which is first in
  // every second pair.
  static bool GoesOther(const Trial& trial) {
    return (trial.pairs % 2 == 0) != trial.second;
  }

  const Now now_;
  std::array<Trial, 64> trials_;
  Trial* timed_ = nullptr;  // by Begin, until End
  Time began_;
};

}  // namespace mnemon
