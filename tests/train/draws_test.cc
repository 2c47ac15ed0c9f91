// SPDX-License-Identifier: MIT
#include "train/draws.h"

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

}  // namespace
}  // namespace mnemon
