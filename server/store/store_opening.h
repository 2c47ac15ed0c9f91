// SPDX-License-Identifier: MIT
// How the two copies of a store are found: which one leads, and what becomes of the
// other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store_copy.h"

namespace mnemon {

struct OpenedCopies {
  // The primary one is there. The other is null where it has to be made anew; else it
  // is `equal`, or its extent says what it lacks.
  std::array<std::unique_ptr<StoreCopy>, 2> copies;
  int primary = 0;
  bool equal = false;
  uint64_t last = 0;  // the highest number of a commit that was ever seen
  uint64_t lost = 0;  // commits that were synced and that no copy has
  int64_t gaps = 0;   // in the logs of the primary copy
  std::array<std::string, 2> found;  // StoreCondition
};

struct StoreFacts {
  bool created = true;    // false: copies that are missing have not been made
  bool format_1 = false;  // copy 0 is of format 1; there is no other
  uint64_t synced = 0;    // SyncedNumber
  std::array<std::string, 2> aside;  // where a copy goes that may be of use
};

// The copy that has failed in `place`, its log cut to whole commits; null: it is
// missing, or damaged.
absl::StatusOr<std::unique_ptr<StoreCopy>> ReopenStoreCopy(
    const StoreCopy::Place& place);

// The folders of both places exist. A copy that is damaged or missing is left out where
// the other one is whole. Where neither is, what can be read of them is kept, the files
// of the other go aside. DATA_LOSS, STORE_DAMAGED: nothing can be read, or both are
// missing; the other errors of SessionStore: what may have more commits than the other
// copy cannot be opened just now.
absl::StatusOr<OpenedCopies> OpenStoreCopies(
    const std::array<StoreCopy::Place, 2>& places, const StoreFacts& facts);

}  // namespace mnemon
