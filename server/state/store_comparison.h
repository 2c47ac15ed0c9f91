// SPDX-License-Identifier: MIT
// Makes one copy of the store what another one is: reads both from end to end, and
// writes what differs. Commits to both may come between two steps.
// What the first one cannot read stays as the second one has it, where that may stand
// in.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/state/store_copy.h"

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
  // No commit may be in progress.
  Outcome Step();

  int64_t differences() const { return differences_; }
  // Places that the first one could not read.
  int64_t stood_in() const { return stood_in_; }
  const absl::Status& status() const { return status_; }

 private:
  Outcome Failed(const rocksdb::Status& status, Outcome damaged);

  StoreCopy& first_;
  StoreCopy& second_;
  const bool stands_in_;
  size_t table_ = 0;
  std::string at_;  // the first key that was not compared
  int64_t differences_ = 0;
  int64_t stood_in_ = 0;
  absl::Status status_;
};

}  // namespace mnemon
