// SPDX-License-Identifier: MIT
// The memory of states that ended: what goes back to the system, and what a limit lets
// an arena have.
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/memory/byte_budget.h"
#include "gtest/gtest.h"
#include "model/state/arena.h"
#include "model/state/block_recycler.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

constexpr int64_t kOneMiB = int64_t{1} << 20;
constexpr auto kPeriod = std::chrono::milliseconds(1);

// Rows of 16 KiB: a block of 16 takes a quarter of a MiB.
StateSpec BlocksOfRows(int64_t blocks) {
  return {{{.name = "rows",
            .shape = {4096},
            .growth = Growth::kAppend,
            .capacity = 16 * blocks}}};
}

// Fixed entries of `mib` MiB.
StateSpec FixedMiB(int64_t mib) {
  return {{{.name = "fixed", .shape = {mib, kOneMiB / 4}, .fill = 2.0f}}};
}

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Expects at most `bytes` more than `before`. Not with sanitizers, which keep records
// of all memory ever used.
void ExpectResident(int64_t before, int64_t bytes) {
  if (std::getenv("MNEMON_SANITIZED") != nullptr) return;
  EXPECT_LE(ResidentBytes() - before, bytes);
}

bool Await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

void Write(StateArena& arena, int32_t slot, int64_t blocks) {
  ASSERT_TRUE(arena.Reserve(slot, 16 * blocks).ok());
  for (int64_t i = 0; i < 16 * blocks; ++i) {
    ASSERT_EQ(std::count(arena.Row(slot, 0, i), arena.Row(slot, 0, i) + 4096, 0.0f),
              4096);
    std::fill_n(arena.Row(slot, 0, i), 4096, 1.0f);
  }
  arena.Advance(slot, 16 * blocks);
}

TEST(ReleasedStates, GoBackToTheSystemBeyondTheReserve) {
  constexpr int64_t kSessions = 8, kBlocks = 120;  // 30 MiB each
  ByteBudget budget(ByteBudget::kUnlimited);
  ByteAccount account(budget);
  BlockRecycler recycler(kPeriod);
  {
    malloc_trim(0);  // else what earlier tests left in the heap may go meanwhile
    const int64_t before = ResidentBytes();
    const auto arena =
        *StateArena::Create(BlocksOfRows(kBlocks), {.slots = kSessions,
                                                    .recycler = &recycler,
                                                    .account = &account,
                                                    .reserve_bytes = 32 * kOneMiB});
    for (int round = 0; round < 2; ++round) {
      std::vector<int32_t> slots;
      for (int i = 0; i < kSessions; ++i) {
        slots.push_back(*arena->Acquire());
        ASSERT_NO_FATAL_FAILURE(Write(*arena, slots.back(), kBlocks));
      }
      EXPECT_GE(ResidentBytes() - before, kSessions * 30 * kOneMiB);
      EXPECT_GE(account.bytes(), kSessions * 30 * kOneMiB);
      for (const int32_t slot : slots) arena->Release(slot);
      ASSERT_TRUE(Await([&] { return account.bytes() <= 36 * kOneMiB; }))
          << account.bytes();
      ExpectResident(before, 40 * kOneMiB);
      // The reserve stays.
      EXPECT_GE(account.bytes(), 32 * kOneMiB);
    }
  }
  EXPECT_EQ(account.bytes(), 0);
}

TEST(ReleasedStates, FixedEntriesGoBackToo) {
  constexpr int64_t kSessions = 6;  // of 30 MiB
  ByteBudget budget(ByteBudget::kUnlimited);
  ByteAccount account(budget);
  BlockRecycler recycler(kPeriod);
  const auto arena = *StateArena::Create(FixedMiB(30), {.slots = kSessions,
                                                        .recycler = &recycler,
                                                        .account = &account,
                                                        .reserve_bytes = 0});
  const int64_t before = ResidentBytes();
  std::vector<int32_t> slots;
  for (int i = 0; i < kSessions; ++i) {
    slots.push_back(*arena->Acquire());
    ASSERT_TRUE(arena->Reserve(slots.back(), 1).ok());
  }
  EXPECT_GE(ResidentBytes() - before, kSessions * 30 * kOneMiB);
  EXPECT_EQ(arena->pools().shadow_bytes(), 0);
  SavedFixed saved = arena->saved().SaveFixed(slots[0]);
  ASSERT_TRUE(arena->Reserve(slots[0], 1).ok());
  EXPECT_EQ(arena->pools().shadow_bytes(), 30 * kOneMiB);
  arena->saved().Drop(saved);
  EXPECT_EQ(arena->pools().shadow_bytes(), 0);
  for (const int32_t slot : slots) arena->Release(slot);
  // All but what every fresh session shares.
  ASSERT_TRUE(Await([&] { return account.bytes() <= 34 * kOneMiB; }))
      << account.bytes();
  ExpectResident(before, 40 * kOneMiB);
}

TEST(ReleasedStates, WhatIsUsedAllTheTimeIsKept) {
  ByteBudget budget(ByteBudget::kUnlimited);
  ByteAccount account(budget);
  std::atomic<int64_t> calls = 0;
  // No period ends.
  BlockRecycler recycler(std::chrono::hours(1));
  const auto arena =
      *StateArena::Create(BlocksOfRows(120), {.slots = 2,
                                              .recycler = &recycler,
                                              .account = &account,
                                              .reserve_bytes = 0,
                                              .on_clean = [&] { ++calls; }});
  const int32_t slot = *arena->Acquire();
  ASSERT_NO_FATAL_FAILURE(Write(*arena, slot, 120));
  arena->Release(slot);
  ASSERT_TRUE(Await([&] { return arena->pools().blocks_recycling() == 0; }));
  EXPECT_GE(account.bytes(), 30 * kOneMiB);
  // But where memory is short it goes at once, and on_clean tells when.
  const int64_t before = calls;
  EXPECT_TRUE(recycler.HasReserves());
  recycler.GiveUpReserves();
  ASSERT_TRUE(Await([&] { return calls > before && account.bytes() <= 6 * kOneMiB; }));
}

// Processor time of this thread.
double UsedSeconds() {
  timespec used = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Whatever the size of what ends, its owner does no work in proportion to it.
TEST(ReleasedStates, CostTheirOwnerNothing) {
  constexpr int64_t kSessions = 8, kBlocks = 128;  // 32 MiB each
  BlockRecycler recycler(kPeriod);
  const auto arena = *StateArena::Create(
      BlocksOfRows(kBlocks),
      {.slots = kSessions, .recycler = &recycler, .reserve_bytes = 0});
  std::vector<int32_t> slots;
  for (int i = 0; i < kSessions; ++i) {
    slots.push_back(*arena->Acquire());
    ASSERT_TRUE(arena->Reserve(slots.back(), 16 * kBlocks).ok());
    for (int64_t b = 0; b < kBlocks; ++b) *arena->Row(slots.back(), 0, 16 * b) = 1.0f;
    arena->Advance(slots.back(), 16 * kBlocks);
  }
  const double before = UsedSeconds();
  for (const int32_t slot : slots) arena->Release(slot);
  // Cleaning one of them takes longer.
  EXPECT_LT(UsedSeconds() - before, 1e-3);
  ASSERT_TRUE(Await([&] { return arena->pools().blocks_recycling() == 0; }));
}

TEST(ReleasedStates, SomeMemoryIsReadyBeforeItIsNeeded) {
  BlockRecycler recycler(kPeriod);
  const int64_t before = ResidentBytes();
  const auto arena =
      *StateArena::Create(BlocksOfRows(1000), {.slots = 1, .recycler = &recycler});
  EXPECT_TRUE(Await([&] { return ResidentBytes() - before >= 4 * kOneMiB; }));
}

TEST(LimitedStates, NoMoreBlocksThanTheAccountHas) {
  ByteBudget budget(8 * kOneMiB);
  ByteAccount account(budget), other(budget);
  const auto arena =
      *StateArena::Create(BlocksOfRows(1000), {.slots = 2, .account = &account});
  const int32_t slot = *arena->Acquire();
  // Blocks of a quarter MiB: eight in each 2 MiB.
  EXPECT_EQ(arena->pools().FreeBlocks(1000), 32);
  EXPECT_EQ(account.bytes(), 8 * kOneMiB);
  ASSERT_NO_FATAL_FAILURE(Write(*arena, slot, 32));
  const absl::Status refused = arena->Reserve(slot, 1);
  EXPECT_EQ(GetErrorDetail(refused)->reason, "NO_FREE_BLOCKS");
  EXPECT_EQ(arena->pools().blocks_used(), 32);
  arena->Truncate(slot, 0);
  EXPECT_EQ(arena->pools().FreeBlocks(0), 32);
  EXPECT_FALSE(other.TryTake(1));
}

TEST(LimitedStates, BlocksSetAsideAreFree) {
  ByteBudget budget(8 * kOneMiB);
  ByteAccount account(budget);
  const auto arena =
      *StateArena::Create(BlocksOfRows(1000), {.slots = 2, .account = &account});
  const int32_t slot = *arena->Acquire();
  EXPECT_EQ(arena->pools().FreeBlocks(4), 8);
  arena->pools().SetAside(6, 0);
  EXPECT_EQ(arena->pools().blocks_used(), 0);
  EXPECT_EQ(arena->pools().FreeBlocks(4), 8);
  EXPECT_EQ(arena->pools().FreeBlocks(12), 16);
  arena->pools().SetAside(20, 0);  // of 16
  EXPECT_EQ(arena->pools().FreeBlocks(1000), 32);
  ASSERT_NO_FATAL_FAILURE(Write(*arena, slot, 32));
  EXPECT_EQ(GetErrorDetail(arena->Reserve(slot, 1))->reason, "NO_FREE_BLOCKS");
  arena->Truncate(slot, 0);
  arena->pools().SetAside(32, 0);
  EXPECT_EQ(arena->pools().FreeBlocks(0), 32);
  arena->pools().SetAside(0, 0);
  EXPECT_EQ(arena->pools().FreeBlocks(0), 32);
}

// Where two slots that share a block both write, the block itself is free after that.
TEST(ReleasedStates, WhatStepsGiveBackIsRecycledAndTheMemoryToo) {
  BlockRecycler recycler(std::chrono::hours(1));
  const auto arena = *StateArena::Create(
      BlocksOfRows(1000), {.slots = 2, .recycler = &recycler, .reserve_bytes = 0});
  const int32_t slot = *arena->Acquire(), fork = *arena->Acquire();
  ASSERT_TRUE(arena->Reserve(slot, 1).ok());
  arena->Advance(slot, 1);
  ASSERT_TRUE(arena->Fork(slot, fork).ok());
  arena->pools().SetAside(2, 0);
  BlockCopies copies;
  ASSERT_TRUE(arena->Reserve(slot, 1, copies).ok());
  ASSERT_TRUE(arena->Reserve(fork, 1, copies).ok());
  copies.Make(0, 1);
  arena->Finish(copies);
  arena->pools().SetAside(0, 0);
  EXPECT_TRUE(Await([&] { return arena->pools().blocks_used() == 2; }));
  arena->Release(slot);
  arena->Release(fork);
  arena->pools().SetAside(0, 0);
  EXPECT_TRUE(Await([&] { return arena->pools().blocks_recycling() == 0; }));
  recycler.GiveUpReserves();
  EXPECT_TRUE(Await([&] { return !recycler.HasReserves(); }));
}

std::unique_ptr<StateArena> LimitedArena(BlockRecycler& recycler,
                                         ByteAccount& account) {
  return *StateArena::Create(
      BlocksOfRows(1000),
      {.slots = 2, .recycler = &recycler, .account = &account, .reserve_bytes = 0});
}

TEST(LimitedStates, WhatIsSecuredStays) {
  ByteBudget budget(64 * kOneMiB);
  ByteAccount account(budget);
  BlockRecycler recycler(std::chrono::hours(1));
  const auto arena = LimitedArena(recycler, account);
  const int32_t slot = *arena->Acquire();
  EXPECT_GE(arena->pools().FreeBlocks(100), 100);
  recycler.GiveUpReserves();
  ASSERT_TRUE(Await([&] { return !recycler.HasReserves(); }));
  // Others take what is left.
  ByteAccount other(budget);
  while (other.TryTake(kOneMiB)) {
  }
  ASSERT_NO_FATAL_FAILURE(Write(*arena, slot, 100));
}

// Blocks that were at hand and went back are still promised.
TEST(LimitedStates, WhatIsSecuredStaysWhereItIsNoLongerAtHand) {
  ByteBudget budget(64 * kOneMiB);
  ByteAccount account(budget);
  BlockRecycler recycler(std::chrono::hours(1));
  const auto arena = LimitedArena(recycler, account);
  const int32_t slot = *arena->Acquire();
  EXPECT_GE(arena->pools().FreeBlocks(100), 100);
  arena->pools().SetAside(100, 0);
  EXPECT_GE(arena->pools().FreeBlocks(100), 100);
  arena->pools().SetAside(0, 0);
  recycler.GiveUpReserves();
  ASSERT_TRUE(Await([&] { return !recycler.HasReserves(); }));
  ByteAccount other(budget);
  while (other.TryTake(kOneMiB)) {
  }
  ASSERT_NO_FATAL_FAILURE(Write(*arena, slot, 100));
}

TEST(LimitedStates, NoMoreFixedEntriesThanTheAccountHas) {
  ByteBudget budget(49 * kOneMiB);  // four runs of 10 MiB, of a block each
  ByteAccount account(budget);
  const auto arena =
      *StateArena::Create(FixedMiB(10), {.slots = 8, .account = &account});
  std::vector<int32_t> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(*arena->Acquire());
  // One is what they share.
  EXPECT_TRUE(arena->Reserve(slots[0], 1).ok());
  EXPECT_TRUE(arena->Reserve(slots[1], 1).ok());
  EXPECT_EQ(arena->pools().FreeFixed(2), 1);
  EXPECT_TRUE(arena->Reserve(slots[2], 1).ok());
  const absl::Status refused = arena->Reserve(slots[3], 1);
  EXPECT_EQ(GetErrorDetail(refused)->reason, "NO_FREE_BLOCKS");
  arena->Release(slots[0]);
  EXPECT_TRUE(arena->Reserve(slots[3], 1).ok());
}

}  // namespace
}  // namespace mnemon
