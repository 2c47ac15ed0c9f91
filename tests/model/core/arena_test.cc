// SPDX-License-Identifier: MIT
#include "model/state/arena.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

StateEntry Fixed(int64_t size, float fill) {
  return {.name = "fixed", .shape = {size}, .fill = fill};
}
StateEntry Rows(Growth growth, int64_t width, int64_t capacity) {
  return {.name = "rows", .shape = {width}, .growth = growth, .capacity = capacity};
}
StateSpec AppendSpec(int64_t capacity = 100) {
  return {{Rows(Growth::kAppend, 3, capacity), Rows(Growth::kAppend, 2, capacity)}};
}
StateSpec RingSpec(int64_t capacity) { return {{Rows(Growth::kRing, 1, capacity)}}; }

std::unique_ptr<StateArena> Make(const StateSpec& spec, int32_t slots,
                                 int64_t blocks = 0) {
  auto arena = StateArena::Create(spec, {.slots = slots, .blocks = blocks});
  EXPECT_TRUE(arena.ok()) << arena.status();
  return *std::move(arena);
}

// Reserves, writes and advances `count` rows of the first growing entry, if any, whose
// values are positions.
void Feed(StateArena& arena, int32_t slot, int64_t count) {
  ASSERT_TRUE(arena.Reserve(slot, count).ok());
  const auto& entries = arena.spec().entries;
  const auto growing = std::find_if(
      entries.begin(), entries.end(),
      [](const StateEntry& entry) { return entry.growth != Growth::kFixed; });
  const int entry = static_cast<int>(growing - entries.begin());
  for (int64_t i = arena.length(slot);
       growing != entries.end() && i < arena.length(slot) + count; ++i) {
    *arena.Row(slot, entry, i) = static_cast<float>(i);
  }
  arena.Advance(slot, count);
}

TEST(StateArena, RefusesBadSizes) {
  EXPECT_FALSE(StateArena::Create(AppendSpec(), {.slots = 0}).ok());
  EXPECT_FALSE(StateArena::Create(AppendSpec(), {.slots = -1}).ok());
  EXPECT_FALSE(StateArena::Create(AppendSpec(), {.slots = 1, .blocks = -1}).ok());
  EXPECT_FALSE(StateArena::Create(AppendSpec(0), {.slots = 1}).ok());
  EXPECT_FALSE(StateArena::Create({{Rows(Growth::kAppend, 1, int64_t{1} << 42)}},
                                  {.slots = INT32_MAX})
                   .ok());
}

TEST(StateArena, SlotsAreHandedOutOnceAndComeBack) {
  auto arena = Make({{Fixed(2, 5.0f)}}, 2);
  const int32_t a = *arena->Acquire();
  const int32_t b = *arena->Acquire();
  EXPECT_NE(a, b);
  EXPECT_EQ(arena->slots_used(), 2);
  const auto none = arena->Acquire();
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(GetErrorDetail(none.status())->retry_after);
  arena->Release(a);
  EXPECT_EQ(*arena->Acquire(), a);
  EXPECT_DEATH(
      {
        arena->Release(b);
        arena->Release(b);
      },
      "check failed");
}

TEST(StateArena, AFreshStateIsFilled) {
  auto arena =
      Make({{Fixed(2, 5.0f), Rows(Growth::kAppend, 1, 32), Fixed(3, -1.0f)}}, 1);
  for (int round = 0; round < 2; ++round) {
    const int32_t slot = *arena->Acquire();
    EXPECT_EQ(arena->length(slot), 0);
    EXPECT_THAT(arena->FixedEntries(slot),
                ElementsAre(5.0f, 5.0f, -1.0f, -1.0f, -1.0f));
    ASSERT_TRUE(arena->Reserve(slot, 1).ok());
    EXPECT_THAT(arena->FixedEntries(slot),
                ElementsAre(5.0f, 5.0f, -1.0f, -1.0f, -1.0f));
    std::fill_n(arena->Fixed(slot, 0), 2, 9.0f);
    std::fill_n(arena->Fixed(slot, 2), 3, 9.0f);
    if (round == 0) arena->Release(slot);
  }
}

TEST(StateArena, FreedBlocksComeBackAsZeros) {
  auto arena = Make(AppendSpec(), 2, 2);
  const int32_t a = *arena->Acquire();
  const int32_t b = *arena->Acquire();
  const auto rows_of_b = [&] {
    EXPECT_TRUE(arena->Reserve(b, 32).ok());
    std::vector<float> all;
    for (int entry : {0, 1}) {
      for (int64_t i = 0; i < 32; ++i) {
        const float* row = arena->Row(b, entry, i);
        all.insert(all.end(), row, row + (entry == 0 ? 3 : 2));
      }
    }
    arena->Reset(b);
    return all;
  };
  const auto dirty_a = [&] {
    ASSERT_TRUE(arena->Reserve(a, 32).ok());
    for (int64_t i = 0; i < 32; ++i) {
      std::fill_n(arena->Row(a, 0, i), 3, 7.0f);
      std::fill_n(arena->Row(a, 1, i), 2, 7.0f);
    }
    arena->Advance(a, 32);
  };
  dirty_a();
  arena->Reset(a);
  EXPECT_THAT(rows_of_b(), Each(0.0f));
  dirty_a();
  arena->Truncate(a, 0);
  EXPECT_THAT(rows_of_b(), Each(0.0f));
  dirty_a();
  arena->Release(a);
  EXPECT_THAT(rows_of_b(), Each(0.0f));
}

TEST(StateArena, RowsOfABlockAreContiguousAndDoNotOverlap) {
  auto arena = Make(AppendSpec(), 1);
  const int32_t slot = *arena->Acquire();
  ASSERT_TRUE(arena->Reserve(slot, 40).ok());
  for (int64_t i = 0; i < 40; ++i) {
    std::fill_n(arena->Row(slot, 0, i), 3, static_cast<float>(i));
    std::fill_n(arena->Row(slot, 1, i), 2, static_cast<float>(100 + i));
  }
  for (int64_t i = 0; i < 40; ++i) {
    for (int k = 0; k < 3; ++k) EXPECT_EQ(arena->Row(slot, 0, i)[k], i);
    for (int k = 0; k < 2; ++k) EXPECT_EQ(arena->Row(slot, 1, i)[k], 100 + i);
    if (i % 16) {
      EXPECT_EQ(arena->Row(slot, 0, i), arena->Row(slot, 0, i - 1) + 3);
      EXPECT_EQ(arena->Row(slot, 1, i), arena->Row(slot, 1, i - 1) + 2);
    }
  }
  EXPECT_DEATH(arena->Row(slot, 0, 40), "check failed");
}

TEST(StateArena, ReserveIsIdempotentAndAllOrNothing) {
  auto arena = Make(AppendSpec(), 2, 3);
  const int32_t a = *arena->Acquire();
  const int32_t b = *arena->Acquire();
  EXPECT_EQ(arena->BlocksNeeded(a, 17), 2);
  ASSERT_TRUE(arena->Reserve(a, 17).ok());
  ASSERT_TRUE(arena->Reserve(a, 17).ok());
  EXPECT_EQ(arena->BlocksNeeded(a, 17), 0);
  EXPECT_EQ(arena->pools().blocks_used(), 2);
  EXPECT_EQ(arena->length(a), 0);
  const absl::Status none = arena->Reserve(b, 17);
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetail(none)->reason, "NO_FREE_BLOCKS");
  EXPECT_EQ(arena->pools().blocks_used(), 2);
  EXPECT_TRUE(arena->Reserve(b, 16).ok());
  const absl::Status beyond = arena->Reserve(a, 101);
  EXPECT_EQ(beyond.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(beyond)->reason, "CONTEXT_LIMIT");
  EXPECT_DEATH(arena->Advance(a, 18), "check failed");
}

TEST(StateArena, BytesFollowFromSlotsAndBlocks) {
  auto arena = Make({{Fixed(10, 0), Rows(Growth::kAppend, 4, 64)}}, 3);
  EXPECT_EQ(arena->pools().blocks(), 3 * 4);
  EXPECT_EQ(arena->pools().bytes_used(), 0);
  const int32_t a = *arena->Acquire();
  const int32_t b = *arena->Acquire();
  Feed(*arena, b, 20);
  EXPECT_EQ(arena->bytes_used(a), 40);
  EXPECT_EQ(arena->bytes_used(b), 40 + 2 * 16 * 16);
  EXPECT_EQ(arena->bytes_used(b), arena->spec().bytes_at(20));
  EXPECT_EQ(arena->pools().bytes_used(), arena->bytes_used(a) + arena->bytes_used(b));
  arena->Release(a);
  arena->Release(b);
  EXPECT_EQ(arena->pools().bytes_used(), 0);
}

TEST(StateArena, TruncateKeepsRowsAndReturnsBlocks) {
  auto arena = Make(AppendSpec(), 1);
  const int32_t slot = *arena->Acquire();
  Feed(*arena, slot, 60);
  arena->Truncate(slot, 33);
  EXPECT_EQ(arena->length(slot), 33);
  EXPECT_EQ(arena->pools().blocks_used(), 3);
  arena->Truncate(slot, 32);
  EXPECT_EQ(arena->pools().blocks_used(), 2);
  Feed(*arena, slot, 20);
  for (int64_t i = 0; i < 52; ++i) EXPECT_EQ(*arena->Row(slot, 0, i), i);
  arena->Truncate(slot, 0);
  EXPECT_EQ(arena->pools().blocks_used(), 0);
  EXPECT_DEATH(arena->Truncate(slot, 1), "check failed");
}

TEST(StateArena, ARingLetsGoOfWhatNoQueryCanSee) {
  auto arena = Make(RingSpec(20), 1);
  const int32_t slot = *arena->Acquire();
  Feed(*arena, slot, 100);
  EXPECT_EQ(arena->first_held(slot), 0);
  // The query at 35 sees rows 15 and later.
  arena->SetFloor(slot, 35);
  EXPECT_EQ(arena->first_held(slot), 0);
  arena->SetFloor(slot, 36);
  EXPECT_EQ(arena->first_held(slot), 16);
  arena->SetFloor(slot, 10);
  EXPECT_EQ(arena->first_held(slot), 16);
  EXPECT_DEATH(arena->Row(slot, 0, 15), "check failed");
  arena->Truncate(slot, 40);
  for (int64_t i = 16; i < 40; ++i) EXPECT_EQ(*arena->Row(slot, 0, i), i);
  EXPECT_DEATH(arena->Truncate(slot, 15), "check failed");
  EXPECT_DEATH(arena->SetFloor(slot, 41), "check failed");
  arena->Reset(slot);
  EXPECT_EQ(arena->first_held(slot), 0);
  EXPECT_EQ(arena->pools().blocks_used(), 0);
  Feed(*arena, slot, 3);
  EXPECT_EQ(*arena->Row(slot, 0, 2), 2);
}

// Any ring, chunk size and run ahead of delivery within the stream's bound fits the
// blocks that the arena sets aside for a slot, and every row a query sees is there.
TEST(StateArena, ARingNeverOutgrowsItsBlocks) {
  std::mt19937 random(3);
  for (int64_t capacity : {1, 2, 15, 16, 17, 33, 64, 100}) {
    auto arena = Make(RingSpec(capacity), 1);
    const int32_t slot = *arena->Acquire();
    EXPECT_EQ(arena->pools().blocks(), (capacity + 128 + 15) / 16 + 1);
    int64_t floor = 0;
    for (int round = 0; round < 400; ++round) {
      const int64_t ahead = arena->length(slot) - floor;
      const int64_t count = 1 + random() % 64;
      if (ahead > 64) {
        floor += 1 + random() % ahead;
        arena->SetFloor(slot, floor);
        if (random() % 4 == 0) arena->Truncate(slot, floor);
        continue;
      }
      Feed(*arena, slot, count);
      for (int64_t i = std::max<int64_t>(0, floor - capacity); i < arena->length(slot);
           ++i) {
        ASSERT_EQ(*arena->Row(slot, 0, i), static_cast<float>(i));
      }
    }
    arena->SetFloor(slot, arena->length(slot));
    EXPECT_LE(arena->bytes_used(slot), arena->spec().bytes_at(arena->length(slot)));
  }
}

TEST(StateArena, SavedFixedEntriesComeBack) {
  for (const bool growing : {false, true}) {
    StateSpec spec{{Fixed(2, 1.0f), Fixed(1, 2.0f)}};
    if (growing) spec.entries.push_back(Rows(Growth::kAppend, 1, 64));
    auto arena = Make(spec, 1);
    const int32_t slot = *arena->Acquire();
    ASSERT_TRUE(arena->Reserve(slot, 20).ok());
    arena->Advance(slot, 20);
    arena->Fixed(slot, 0)[1] = 3.0f;
    SavedFixed saved = arena->saved().SaveFixed(slot);
    EXPECT_THAT(arena->FixedEntries(slot), ElementsAre(1.0f, 3.0f, 2.0f));
    ASSERT_TRUE(arena->Reserve(slot, 5).ok());
    arena->Advance(slot, 5);
    std::fill_n(arena->Fixed(slot, 0), 2, 0.0f);
    *arena->Fixed(slot, 1) = 0.0f;
    arena->Truncate(slot, 20);
    arena->saved().RestoreFixed(slot, saved, 20);
    EXPECT_EQ(arena->length(slot), 20);
    EXPECT_THAT(arena->FixedEntries(slot), ElementsAre(1.0f, 3.0f, 2.0f));
    arena->saved().Drop(saved);
    EXPECT_TRUE(saved.empty());
  }
}

TEST(StateArena, ForksShareBlocksAndLiveOnTheirOwn) {
  for (const Growth growth : {Growth::kAppend, Growth::kRing}) {
    auto arena = Make({{Fixed(2, 5.0f), Rows(growth, 1, 40)}}, 3);
    const int32_t a = *arena->Acquire();
    const int32_t b = *arena->Acquire();
    const auto feed = [&](int32_t slot, int64_t count, float base) {
      ASSERT_TRUE(arena->Reserve(slot, count).ok());
      for (int64_t i = arena->length(slot); i < arena->length(slot) + count; ++i) {
        *arena->Row(slot, 1, i) = base + static_cast<float>(i);
      }
      arena->Advance(slot, count);
      if (growth == Growth::kRing) arena->SetFloor(slot, arena->length(slot));
    };
    for (int i = 0; i < (growth == Growth::kRing ? 9 : 2); ++i) feed(a, 19, 0);
    arena->Fixed(a, 0)[1] = 7;
    const int64_t used = arena->pools().bytes_used();
    ASSERT_TRUE(arena->Fork(a, b).ok());
    EXPECT_EQ(arena->bytes_used(b), arena->bytes_used(a));
    EXPECT_EQ(arena->pools().bytes_used(), used);
    EXPECT_EQ(*arena->Table(a).blocks, *arena->Table(b).blocks);
    EXPECT_NE(arena->Table(a).blocks, arena->Table(b).blocks);
    EXPECT_EQ(arena->FixedEntries(b).data(), arena->FixedEntries(a).data());
    EXPECT_EQ(arena->BlocksNeeded(b, 1), 1);
    EXPECT_EQ(arena->length(b), arena->length(a));
    EXPECT_EQ(arena->first_held(b), arena->first_held(a));
    EXPECT_EQ(arena->FixedEntries(b)[1], 7);
    const int64_t end = arena->length(a);
    feed(b, 2, 1000);
    feed(a, 1, 2000);
    arena->Fixed(a, 0)[1] = 8;
    arena->Release(a);
    EXPECT_EQ(arena->FixedEntries(b)[1], 7);
    for (int64_t i = arena->first_held(b); i < end; ++i) {
      ASSERT_EQ(*arena->Row(b, 1, i), static_cast<float>(i));
    }
    EXPECT_EQ(*arena->Row(b, 1, end), static_cast<float>(1000 + end));
  }
}

// Also a state that was made of an image, whose first block has rows of nothing.
TEST(StateArena, ARingHoldsNoRowsFromBeforeItsStart) {
  const auto arena = *StateArena::Create(
      {{{.name = "rows", .shape = {1}, .growth = Growth::kRing, .capacity = 21}}},
      {.slots = 2});
  SavedState made, shared;
  ASSERT_TRUE(arena->saved().MakeWhole(61, made).ok());
  ASSERT_TRUE(arena->saved().Share(made, shared).ok());
  const int32_t a = *arena->Acquire(), b = *arena->Acquire();
  arena->saved().Attach(made, a);
  EXPECT_EQ(arena->first_held(a), 40);
  ASSERT_TRUE(arena->Fork(a, b).ok());
  EXPECT_EQ(arena->first_held(b), 40);
  SavedState saved;
  ASSERT_TRUE(arena->saved().Save(a, saved).ok());
  arena->Reset(a);
  EXPECT_EQ(arena->first_held(a), 0);
  arena->saved().RestoreAndDrop(a, saved);
  EXPECT_EQ(arena->first_held(a), 40);
  arena->Reset(a);
  arena->saved().Attach(shared, a);
  EXPECT_EQ(arena->first_held(a), 40);
  SavedState whole;
  arena->saved().Detach(a, whole);
  arena->saved().Attach(whole, a);
  EXPECT_EQ(arena->first_held(a), 40);
  arena->Release(a);
  arena->Release(b);
}

TEST(StateArena, ACopyOnWriteThatDoesNotFitChangesNothing) {
  auto arena = Make(AppendSpec(), 2, 3);
  const int32_t a = *arena->Acquire();
  const int32_t b = *arena->Acquire();
  Feed(*arena, a, 33);
  ASSERT_TRUE(arena->Fork(a, b).ok());
  EXPECT_EQ(arena->pools().blocks_used(), 3);
  EXPECT_EQ(arena->BlocksNeeded(b, 15), 1);
  EXPECT_EQ(arena->BlocksNeeded(b, 16), 2);
  const absl::Status status = arena->Reserve(b, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetail(status)->reason, "NO_FREE_BLOCKS");
  EXPECT_EQ(arena->pools().blocks_used(), 3);
  EXPECT_EQ(arena->Table(b).block(2), arena->Table(a).block(2));
  arena->Truncate(b, 32);
  EXPECT_EQ(arena->BlocksNeeded(a, 15), 0);
  EXPECT_EQ(arena->BlocksNeeded(b, 16), 1);
}

TEST(StateArena, ASavedRingHoldsWhatItsPositionCanSee) {
  auto arena = Make(RingSpec(20), 1);
  const int32_t slot = *arena->Acquire();
  Feed(*arena, slot, 50);
  SavedState saved;
  EXPECT_EQ(arena->saved().BlocksToSave(slot), 3);  // rows 30 to 49
  ASSERT_TRUE(arena->saved().Save(slot, saved).ok());
  EXPECT_EQ(saved.blocks(), 3);
  EXPECT_EQ(saved.position(), 50);
  EXPECT_EQ(arena->pools().blocks_used(), 4);
  arena->SetFloor(slot, 50);
  EXPECT_EQ(arena->pools().blocks_used(), 3);
  EXPECT_EQ(arena->BlocksNeeded(slot, 14), 1);  // the copy of the last one
  Feed(*arena, slot, 60);
  arena->SetFloor(slot, 110);
  EXPECT_EQ(arena->first_held(slot), 80);
  EXPECT_EQ(arena->pools().blocks_used(), 3 + 2);
  for (int64_t i = 80; i < 110; ++i) *arena->Row(slot, 0, i) = -1;
  arena->saved().RestoreAndDrop(slot, saved);
  EXPECT_TRUE(saved.empty());
  EXPECT_EQ(arena->length(slot), 50);
  EXPECT_EQ(arena->pools().blocks_used(), 3);
  for (int64_t i = 30; i < 50; ++i) EXPECT_EQ(*arena->Row(slot, 0, i), i);
  arena->Release(slot);
  EXPECT_EQ(arena->pools().blocks_used(), 0);
}

TEST(StateArena, SavedStatesCountWhereThePoolFollowsFromThem) {
  const auto blocks = [](const StateSpec& spec, int32_t saved) {
    return (*StateArena::Create(spec, {.slots = 2, .saved_states = saved}))
        ->pools()
        .blocks();
  };
  EXPECT_EQ(blocks(RingSpec(20), 3) - blocks(RingSpec(20), 0), 3 * 3);
  EXPECT_EQ(blocks(AppendSpec(), 3), blocks(AppendSpec(), 0));
  EXPECT_FALSE(StateArena::Create(RingSpec(20), {.slots = 2, .saved_states = -1}).ok());
}

TEST(StateArena, SlotsThatWereNeverUsedCostNothing) {
  auto arena = Make({{Fixed(1000, 5.0f)}}, 1 << 20);
  const int32_t slot = *arena->Acquire();
  arena->Release(slot);
  EXPECT_EQ(*arena->Acquire(), slot);
}

}  // namespace
}  // namespace mnemon
