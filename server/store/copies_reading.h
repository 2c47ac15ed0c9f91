// SPDX-License-Identifier: MIT
// Reading of copies of which parts are damaged: a scan, and a comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "server/store/session_store.h"
#include "server/store/store_copy.h"
#include "server/store/store_key.h"

namespace mnemon {

// Visits the keys of `span` as SessionStore::Scan does: what one copy cannot read is
// read from the next, and `unreadable` gets what none can read. `damaged` gets the
// index of each copy in which something could not be read.
// REQUIRES: `copies` is not empty.
absl::Status ScanCopies(std::span<StoreCopy* const> copies, StoreTable table,
                        StoreKeySpan span, const SessionStore::Visit& visit,
                        const SessionStore::Unreadable& unreadable,
                        const std::function<void(size_t)>& damaged);

// Makes the second copy of a store equal to the first: reads both from end to end, and
// writes what differs. Commits to both may come between two steps. One thread.
class StoreComparison {
 public:
  // Both outlive it. `stands_in`: the second copy keeps what it has where the first one
  // cannot be read.
  StoreComparison(StoreCopy& first, StoreCopy& second, bool stands_in)
      : first_(first), second_(second), stands_in_(stands_in) {}

  enum class Outcome {
    kMore,
    kStuck,  // the first copy cannot be read here, and the second one stands in: Skip
    kDone,
    kFirstDamaged,
    kSecondDamaged,
    kFailed,  // status()
  };
  // Reads a piece. No commit may be in progress.
  Outcome Step();
  // Goes on where the first copy can be read again. Commits may be in progress, since
  // this may read the damaged place many times from a slow disk.
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
  absl::Status status_;
};

}  // namespace mnemon
