// SPDX-License-Identifier: MIT
// States in memory that is not the host's; arena_model_test makes all calls of an arena
// there.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/memory/byte_budget.h"
#include "gtest/gtest.h"
#include "model/state/arena.h"
#include "model/state/block_recycler.h"
#include "tests/fakes/far_memory.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The fake is one: a host that follows an address ends.
TEST(FarStates, AreOutOfReachOfTheHost) {
  const auto memory = std::make_shared<FarMemory>();
  const auto arena = *StateArena::Create(
      {{{.name = "fixed", .shape = {4}, .fill = 2.0f},
        {.name = "rows", .shape = {4}, .growth = Growth::kAppend, .capacity = 16}}},
      {.slots = 1, .memory = memory});
  const int32_t slot = *arena->Acquire();
  ASSERT_TRUE(arena->Reserve(slot, 1).ok());
  EXPECT_DEATH(*arena->Fixed(slot, 0) = 1.0f, "");
  EXPECT_DEATH(EXPECT_EQ(arena->FixedEntries(slot)[0], 2.0f), "");
  EXPECT_DEATH(EXPECT_EQ(arena->Table(slot).block(0)[0], 0.0f), "");
  EXPECT_EQ(memory->Near(arena->Fixed(slot, 0), 4)[3], 2.0f);
  EXPECT_EQ(memory->Near(arena->Row(slot, 1, 0), 4)[3], 0.0f);
}

// Memory goes back to the device, is not used meanwhile, and comes again as zeros.
TEST(FarStates, GoBackAndComeAgain) {
  constexpr int64_t kBlocks = 120, kWidth = 4096;  // 30 MiB
  ByteBudget budget(ByteBudget::kUnlimited);
  ByteAccount account(budget);
  BlockRecycler recycler(std::chrono::milliseconds(1));
  const auto memory = std::make_shared<FarMemory>();
  const auto arena = *StateArena::Create({{{.name = "rows",
                                            .shape = {kWidth},
                                            .growth = Growth::kAppend,
                                            .capacity = 16 * kBlocks}}},
                                         {.slots = 1,
                                          .memory = memory,
                                          .recycler = &recycler,
                                          .account = &account,
                                          .reserve_bytes = 0});
  for (int round = 0; round < 3; ++round) {
    const int32_t slot = *arena->Acquire();
    ASSERT_TRUE(arena->Reserve(slot, 16 * kBlocks).ok());
    for (int64_t b = 0; b < kBlocks; ++b) {
      float* const block = memory->Near(arena->Table(slot).block(b), 16 * kWidth);
      ASSERT_EQ(std::count(block, block + 16 * kWidth, 0.0f), 16 * kWidth);
      std::fill_n(block, 16 * kWidth, 1.0f);
    }
    arena->Advance(slot, 16 * kBlocks);
    ASSERT_GE(account.bytes(), 30 * kMiB);
    arena->Release(slot);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (account.bytes() > 8 * kMiB || arena->pools().blocks_recycling() > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << account.bytes();
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace mnemon
