// SPDX-License-Identifier: MIT
// The number of the last commit that both copies of a store are known to have synced,
// in a small file beside them: a witness of what a start must find. It is written
// without a sync, after those of the commit: it may be too low after a power failure,
// and never is too high.
#pragma once

#include <cstdint>
#include <string>

#include "base/files/descriptor.h"

namespace mnemon {

// One thread at a time.
class SyncedNumber {
 public:
  // `path` need not exist.
  explicit SyncedNumber(std::string path) : path_(std::move(path)) {}

  // 0: nothing is known.
  uint64_t Read() const;
  // Where it cannot be written what was known stays, or nothing is.
  void Write(uint64_t number);

 private:
  const std::string path_;
  Descriptor file_;  // open from the first Write on
};

}  // namespace mnemon
