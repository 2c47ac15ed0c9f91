// SPDX-License-Identifier: MIT
// Blocks where the heap has no more.
#include "gtest/gtest.h"
#include "model/state/arena.h"
#include "tests/fakes/failing_allocation.h"

namespace mnemon {
namespace {

// A block that was used before needs nothing from the heap, whichever allocation failed
// when it was used first.
TEST(ArenaAllocation, AUsedBlockIsTakenWithoutMemory) {
  constexpr int64_t kBlocks = 33;  // one more than are made at once
  const StateSpec spec{{{.name = "rows",
                         .shape = {4},
                         .growth = Growth::kAppend,
                         .capacity = 16 * kBlocks}}};
  bool failed = true;
  int64_t held = 0;
  for (int64_t n = 1; failed; ++n) {
    auto arena = StateArena::Create(spec, {.slots = 2}).value();
    const int32_t slot = arena->Acquire().value();
    ASSERT_TRUE(arena->Reserve(slot, 16).ok());
    arena->Advance(slot, 16);
    countdown = n;
    for (int64_t b = 1; b < kBlocks; ++b) {
      if (!arena->Reserve(slot, 16).ok()) break;
      arena->Advance(slot, 16);
    }
    failed = countdown <= 0;
    countdown = 0;
    held = arena->length(slot);
    ASSERT_GE(held, 16);
    // The list of the slot stays as long as it was.
    arena->Truncate(slot, held - 16);
    countdown = 1;
    const absl::Status status = arena->Reserve(slot, 16);
    EXPECT_TRUE(status.ok()) << status << ", allocation " << n;
    EXPECT_EQ(countdown, 1) << n;
    countdown = 0;
  }
  EXPECT_EQ(held, 16 * kBlocks);
}

}  // namespace
}  // namespace mnemon
