// SPDX-License-Identifier: MIT
// An arena whose blocks are cleaned on a recycler's thread.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "model/state/arena.h"
#include "model/state/block_recycler.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

constexpr int64_t kGrowing = 8, kFixedFloats = 100;

StateSpec Spec(Growth growth, int64_t capacity) {
  return {
      {{.name = "fixed", .shape = {kFixedFloats}, .fill = 2.0f},
       {.name = "rows", .shape = {kGrowing}, .growth = growth, .capacity = capacity}}};
}

// Waits for on_clean until nothing is left to recycle.
class CleanSignal {
 public:
  std::function<void()> Callback() {
    return [this] {
      std::lock_guard lock(mutex_);
      changed_.notify_all();
    };
  }
  void Await(const StateArena& arena) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(
        lock, kPatience, [&] { return arena.pools().blocks_recycling() == 0; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Every newly reserved row is zero, whoever had the block before.
void ExpectZeros(StateArena& arena, int32_t slot, int64_t from, int64_t count) {
  for (int64_t i = from; i < from + count; ++i) {
    const float* row = arena.Row(slot, 1, i);
    ASSERT_TRUE(std::all_of(row, row + kGrowing, [](float x) { return x == 0; }))
        << "row " << i;
  }
}

TEST(RecycledArena, GivesALongSessionBackAndUsesItAgain) {
  constexpr int64_t kBlocks = 100'000;
  CleanSignal clean;
  BlockRecycler recycler;
  const auto arena = *StateArena::Create(Spec(Growth::kAppend, 16 * kBlocks),
                                         {.slots = 2,
                                          .blocks = kBlocks,
                                          .recycler = &recycler,
                                          .on_clean = clean.Callback()});
  for (int round = 0; round < 2; ++round) {
    const int32_t slot = *arena->Acquire();
    ASSERT_TRUE(arena->Reserve(slot, 16 * kBlocks).ok());
    for (int64_t i = 0; i < kBlocks; ++i) {
      float* const row = arena->Row(slot, 1, 16 * i + 15);
      ASSERT_EQ(row[kGrowing - 1], 0.0f);
      row[kGrowing - 1] = 1.0f;
    }
    arena->Advance(slot, 16 * kBlocks);
    EXPECT_EQ(arena->pools().blocks_used(), kBlocks);
    if (round == 0) {
      arena->Release(slot);
    } else {
      arena->Truncate(slot, 16 * kBlocks / 2);
      EXPECT_EQ(arena->Row(slot, 1, 15)[kGrowing - 1], 1.0f);
    }
    clean.Await(*arena);
    EXPECT_EQ(arena->pools().blocks_used(), round == 0 ? 0 : kBlocks / 2);
  }
}

TEST(RecycledArena, AFullPoolSaysThatBlocksAreOnTheirWay) {
  CleanSignal clean;
  // Stops the recycler within on_clean.
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = true;
  BlockRecycler recycler;
  const auto arena = *StateArena::Create(
      Spec(Growth::kAppend, 1600),
      {.slots = 2, .blocks = 100, .recycler = &recycler, .on_clean = [&] {
         std::unique_lock lock(mutex);
         changed.wait(lock, [&] { return !stop; });
         clean.Callback()();
       }});
  const int32_t a = *arena->Acquire();
  const int32_t b = *arena->Acquire();
  ASSERT_TRUE(arena->Reserve(a, 1600).ok());
  // One block holds the recycler up; those given back afterwards wait.
  arena->Advance(a, 1600);
  arena->Truncate(a, 1584);
  while (arena->pools().blocks_recycling() > 0) std::this_thread::yield();
  arena->Reset(a);
  EXPECT_EQ(arena->pools().blocks_recycling(), 99);
  EXPECT_EQ(arena->pools().blocks_used(), 99);
  const absl::Status status = arena->Reserve(b, 1600);
  EXPECT_EQ(GetErrorDetail(status)->reason, "NO_FREE_BLOCKS");
  {
    std::lock_guard lock(mutex);
    stop = false;
  }
  changed.notify_all();
  clean.Await(*arena);
  EXPECT_EQ(arena->pools().blocks_used(), 0);
  ASSERT_TRUE(arena->Reserve(b, 1600).ok());
  ExpectZeros(*arena, b, 0, 1600);
}

TEST(RecycledArena, FreshFixedEntriesAreFilled) {
  BlockRecycler recycler;
  const auto arena =
      *StateArena::Create({{{.name = "fixed", .shape = {kFixedFloats}, .fill = 2.0f}}},
                          {.slots = 3, .recycler = &recycler});
  for (int i = 0; i < 3000; ++i) {
    const int32_t slot = *arena->Acquire();
    for (const float x : arena->FixedEntries(slot)) ASSERT_EQ(x, 2.0f);
    ASSERT_TRUE(arena->Reserve(slot, 1).ok());
    for (const float x : arena->FixedEntries(slot)) ASSERT_EQ(x, 2.0f);
    std::fill_n(arena->Fixed(slot, 0), kFixedFloats, -1.0f);
    if (i % 3 == 0) {
      arena->Reset(slot);
      for (const float x : arena->FixedEntries(slot)) ASSERT_EQ(x, 2.0f);
    }
    arena->Release(slot);
  }
}

// The owner gives back and takes as fast as it can; two arenas share the recycler.
// The numbers of a session that is gone are nowhere: what lies where its entries were
// is zero, or what others have written there.
TEST(RecycledArena, NothingIsLeftOfASession) {
  BlockRecycler recycler(std::chrono::hours(1));
  const auto arena = *StateArena::Create(
      Spec(Growth::kAppend, 64), {.slots = 2, .blocks = 8, .recycler = &recycler});
  const int32_t other = *arena->Acquire();
  ASSERT_TRUE(arena->Reserve(other, 1).ok());
  std::vector<const float*> fixed, rows;
  const int32_t slot = *arena->Acquire();
  for (int64_t i = 0; i < 64; ++i) {
    SavedFixed shadow = arena->saved().SaveFixed(slot);
    ASSERT_TRUE(arena->Reserve(slot, 1).ok());
    std::fill_n(arena->Fixed(slot, 0), kFixedFloats, 7.0f);
    std::fill_n(arena->Row(slot, 1, i), kGrowing, 7.0f);
    fixed.push_back(arena->Fixed(slot, 0));
    rows.push_back(arena->Row(slot, 1, i));
    arena->Advance(slot, 1);
    arena->saved().Drop(shadow);
    arena->pools().SetAside(1, 1);
  }
  arena->Release(slot);
  arena->pools().SetAside(0, 0);
  const auto left = [&] {
    const auto holds = [](const float* at, int64_t count) {
      return std::count(at, at + count, 7.0f) > 0;
    };
    for (const float* at : fixed) {
      if (holds(at, kFixedFloats)) return true;
    }
    return std::any_of(rows.begin(), rows.end(),
                       [&](const float* at) { return holds(at, kGrowing); });
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // What the recycler has not written yet, it may write now.
  while (arena->pools().blocks_recycling() > 0 || arena->pools().shadow_bytes() > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  recycler.Wake();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(left());
}

TEST(RecycledArena, ABusyOwnerAlwaysFindsCleanBlocks) {
  BlockRecycler recycler;
  std::vector<std::unique_ptr<StateArena>> arenas;
  for (const Growth growth : {Growth::kRing, Growth::kAppend}) {
    arenas.push_back(
        *StateArena::Create(Spec(growth, growth == Growth::kRing ? 64 : 1 << 16),
                            {.slots = 8, .blocks = 600, .recycler = &recycler}));
  }
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    StateArena& arena = *arenas[round % 2];
    const bool ring = arena.spec().growth() == Growth::kRing;
    const int32_t slot = *arena.Acquire();
    for (int64_t at = 0, end = 1 + random() % 2500; at < end;) {
      const int64_t count = 1 + random() % 64;
      const bool recycled = arena.pools().blocks_recycling() == 0;
      if (!arena.Reserve(slot, count).ok()) {
        ASSERT_FALSE(recycled) << "blocks were lost";
        std::this_thread::yield();
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(ExpectZeros(arena, slot, at, count));
      for (int64_t i = at; i < at + count; ++i) {
        std::fill_n(arena.Row(slot, 1, i), kGrowing, static_cast<float>(i + 1));
      }
      arena.Advance(slot, count);
      at += count;
      if (ring) arena.SetFloor(slot, at);
    }
    const int64_t length = arena.length(slot);
    for (int64_t i = std::max<int64_t>(0, ring ? length - 64 : 0); i < length; ++i) {
      ASSERT_EQ(*arena.Row(slot, 1, i), static_cast<float>(i + 1));
    }
    // Shared with a fork that outlives it, and given back from both sides.
    const int32_t fork = *arena.Acquire();
    ASSERT_TRUE(arena.Fork(slot, fork).ok());
    SavedState saved;
    ASSERT_TRUE(arena.saved().Save(fork, saved).ok());
    arena.Release(slot);
    arena.Release(fork);
    arena.saved().Drop(saved);
  }
  for (const auto& arena : arenas) {
    while (arena->pools().blocks_recycling() > 0) std::this_thread::yield();
    EXPECT_EQ(arena->pools().blocks_used(), 0);
    EXPECT_EQ(arena->slots_used(), 0);
  }
}

}  // namespace
}  // namespace mnemon
