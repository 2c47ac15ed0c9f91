// SPDX-License-Identifier: MIT
// The opening of a store's two copies: which one leads, and what becomes of the other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store_copy.h"

namespace mnemon {

struct OpenedCopies {
  // The primary copy is there. The other is null where it has to be rebuilt; else it is
  // `equal`, or its extent says what it lacks.
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
};

// Opens the copy in `place` after it failed, its log cut to whole commits; null: it is
// missing, or damaged.
absl::StatusOr<std::unique_ptr<StoreCopy>> ReopenStoreCopy(
    const StoreCopy::Place& place);

// The folders of both places exist. Leaves out a copy that is damaged or missing where
// the other is whole. Where neither is, keeps what can be read of one, and moves the
// files of the other aside, to "<path>.damaged". STORE_DAMAGED: nothing can be read, or
// both are missing. Other errors of SessionStore: a copy cannot be opened now that may
// have more commits than the other.
absl::StatusOr<OpenedCopies> OpenStoreCopies(
    const std::array<StoreCopy::Place, 2>& places, const StoreFacts& facts);

}  // namespace mnemon
