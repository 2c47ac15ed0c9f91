// SPDX-License-Identifier: MIT
#include "train/data/draws.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(UniformBelow, ReachesEveryNumberEquallyOften) {
  std::vector<int64_t> count(7);
  for (int64_t i = 0; i < 7000; ++i) {
    const int64_t drawn = UniformBelow(7, 1, 0, DrawPurpose::kDigits, i);
    ASSERT_GE(drawn, 0);
    ASSERT_LT(drawn, 7);
    ++count[drawn];
  }
  // Five standard deviations.
  for (const int64_t n : count) EXPECT_NEAR(n, 1000, 5 * 29.3);
  EXPECT_EQ(UniformBelow(1, 1, 0, DrawPurpose::kDigits, 5), 0);
}

TEST(DrawBits, DependsOnEverythingItIsFor) {
  std::set<uint64_t> seen;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40}) {
    for (const uint32_t pass : {0u, 1u}) {
      for (const DrawPurpose purpose : {DrawPurpose::kOrder, DrawPurpose::kDigits}) {
        for (const int64_t index : {int64_t{0}, int64_t{1}, int64_t{1} << 40}) {
          seen.insert(DrawBits(seed, pass, purpose, index));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 3u * 2 * 2 * 3);
}

TEST(PassOrder, IsAnotherPermutationInEveryPass) {
  PassOrder order(100, 7);
  const auto pass = [&](int64_t number) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < order.size(); ++i) places.push_back(order.At(number, i));
    return places;
  };
  const std::vector<int64_t> first = pass(0), second = pass(1);
  EXPECT_NE(first, second);
  EXPECT_EQ(pass(0), first);  // a pass does not depend on those before it
  EXPECT_THAT(first, testing::Not(testing::WhenSorted(first)));
  std::vector<int64_t> sorted = second;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[i], i);
}

std::vector<int64_t> Pass(PassOrder& order, int64_t pass) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < order.size(); ++i) numbers.push_back(order.At(pass, i));
  return numbers;
}

// Held against drift: runs of older checkpoints must find their order again.
TEST(PassOrder, OneShardIsTheOrderOfOlderRuns) {
  PassOrder whole(8, 1), shard(8, 1, 8), larger(8, 1, 1000);
  EXPECT_EQ(Pass(whole, 0), (std::vector<int64_t>{5, 2, 1, 6, 0, 3, 4, 7}));
  for (int64_t pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(Pass(shard, pass), Pass(whole, pass));
    EXPECT_EQ(Pass(larger, pass), Pass(whole, pass));
  }
}

TEST(PassOrder, ShardsComeWholeAndInAnotherOrderInEveryPass) {
  for (const int64_t count : {1, 9, 10, 11, 95, 100}) {
    std::set<std::vector<int64_t>> orders;
    std::set<int64_t> turns_of_the_last;
    PassOrder order(count, 7, 10);
    for (int64_t pass = 0; pass < 20; ++pass) {
      const std::vector<int64_t> numbers = Pass(order, pass);
      std::vector<int64_t> shards;
      for (const int64_t number : numbers) {
        if (shards.empty() || shards.back() != number / 10) {
          shards.push_back(number / 10);
        }
      }
      orders.insert(shards);
      turns_of_the_last.insert(
          std::find(shards.begin(), shards.end(), (count - 1) / 10) - shards.begin());
      ASSERT_EQ(static_cast<int64_t>(shards.size()), (count + 9) / 10);  // each once
      std::vector<int64_t> sorted = numbers;
      std::sort(sorted.begin(), sorted.end());
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(sorted[i], i);
      EXPECT_TRUE(count < 90 || numbers != sorted);
    }
    if (count >= 95) {
      EXPECT_GT(orders.size(), 15u);
      EXPECT_GT(turns_of_the_last.size(), 5u);
    }
  }
}

TEST(PassOrder, ShardsAreShuffledEachInItsOwnWay) {
  PassOrder order(1000, 7, 100);
  std::set<std::vector<int64_t>> inner;
  const std::vector<int64_t> numbers = Pass(order, 0);
  for (int64_t turn = 0; turn < 10; ++turn) {
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < 100; ++i) offsets.push_back(numbers[turn * 100 + i] % 100);
    EXPECT_FALSE(std::is_sorted(offsets.begin(), offsets.end()));
    inner.insert(offsets);
  }
  EXPECT_EQ(inner.size(), 10u);
}

// So a cursor is all that a checkpoint needs.
TEST(PassOrder, APlaceDependsOnNothingBefore) {
  PassOrder walked(95, 7, 10);
  const std::vector<int64_t> first = Pass(walked, 0), second = Pass(walked, 1);
  PassOrder jumped(95, 7, 10);
  for (const int64_t place : {94, 3, 50, 49, 51, 0}) {
    EXPECT_EQ(jumped.At(1, place), second[place]);
    jumped.Release();
    EXPECT_EQ(jumped.At(0, place), first[place]);
  }
}

TEST(PassOrder, TellsTheNumbersOfTheNextShard) {
  for (const int64_t count : {95, 100, 7}) {
    PassOrder order(count, 7, 10);
    for (int64_t pass = 0; pass < 5; ++pass) {
      const std::vector<int64_t> numbers = Pass(order, pass);
      std::set<int64_t> told;
      for (int64_t i = 0; i < count; ++i) {
        order.At(pass, i);
        const auto next = order.InNextShard(pass, i);
        if (!next) continue;
        told.insert(*next);
        const auto use = std::find(numbers.begin(), numbers.end(), *next);
        EXPECT_GT(use - numbers.begin(), i);
        EXPECT_LT(use - numbers.begin(), i + 20);
      }
      // All but the first shard's; fewer where one follows a shorter one.
      EXPECT_GE(static_cast<int64_t>(told.size()), count - 15);
      EXPECT_LE(static_cast<int64_t>(told.size()), std::max<int64_t>(0, count - 5));
    }
  }
}

}  // namespace
}  // namespace mnemon
