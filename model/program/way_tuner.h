// SPDX-License-Identifier: MIT
// An autotuner of StepPartition::Way: times steps of both ways that a step can go, and
// keeps to the faster one. Which one that is depends on the processor's caches, the
// number of workers, the model and the rows, and no constant is right for all. The bits
// of a step do not depend on the way.
//
// Steps with similar numbers of rows (the same power of two) are tuned together. A
// trial compares pairs of steps, one of each way, by their time per row, until one way
// is ahead by kAhead pairs or kMostPairs have run; after kKept steps there is another
// trial. A tie is for kByOperation.
//
// Threads: one at a time. Takes no memory.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "model/program/step_partition.h"

namespace mnemon {

class WayTuner {
 public:
  static constexpr int kAhead = 8;
  static constexpr int kMostPairs = 40;
  static constexpr int kKept = 10000;

  using Time = std::chrono::steady_clock::time_point;
  using Now = Time (*)();

  // `now`: what tells the time.
  explicit WayTuner(Now now = &std::chrono::steady_clock::now) : now_(now) {}

  // The way of the next step, kByOperation or `other`. `together`: how many rows one
  // operation has, 1 at least; the same number always comes with the same `other` or
  // with kByOperation. End must follow.
  StepPartition::Way Begin(StepPartition::Way other, int64_t together);
  // That step has ended, and had `rows` rows in all.
  void End(int64_t rows);

 private:
  struct Trial {
    bool other = false;   // what was faster in the last one
    bool second = false;  // the next step is the second one of a pair
    int pairs = 0;
    int ahead = 0;     // pairs in which the other way was faster, less those where not
    int kept = 0;      // steps until the next trial
    double first = 0;  // nanoseconds per row of the first step of a pair
  };

  static size_t Index(int64_t together);
  // Whether the step of a trial that is due goes the other way: it is first in every
  // second pair.
  static bool GoesOther(const Trial& trial) {
    return (trial.pairs % 2 == 0) != trial.second;
  }

  const Now now_;
  std::array<Trial, 64> trials_;
  Trial* timed_ = nullptr;  // by Begin, until End
  Time began_;
};

}  // namespace mnemon
