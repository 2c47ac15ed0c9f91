// SPDX-License-Identifier: MIT
// Makes one copy of the store what another one is: reads both from end to end, and
// writes what differs. Commits to both may come between two steps.
// What the first one cannot read stays as the second one has it, where that may stand
// in.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/store/store_copy.h"

namespace mnemon {

// One thread.
class StoreComparison {
 public:
  // Read in one step.
  static constexpr size_t kStepBytes = size_t{256} << 10;

  // Both outlive it.
  StoreComparison(StoreCopy& first, StoreCopy& second, bool stands_in)
      : first_(first), second_(second), stands_in_(stands_in) {}

  enum class Outcome {
    kMore,
    kDone,
    kFirstDamaged,
    kSecondDamaged,
    kFailed,  // status()
  };
  // No commit may be in progress. REQUIRES: it is not stuck.
  Outcome Step();

  // Behind a Step: the first one cannot read on, and the second one stands in.
  bool stuck() const { return stuck_; }
  // Goes on where the first one can read again. Commits may be in progress: it may read
  // the damaged place many times, and a disk may take its time for each.
  void Skip();

  int64_t differences() const { return differences_; }
  const absl::Status& status() const { return status_; }

 private:
  Outcome Failed(const rocksdb::Status& status, Outcome damaged);

  StoreCopy& first_;
  StoreCopy& second_;
  const bool stands_in_;
  size_t table_ = 0;
  std::string at_;  // the first key that was not compared
  int64_t differences_ = 0;
  bool stuck_ = false;
  absl::Status status_;
};

}  // namespace mnemon
