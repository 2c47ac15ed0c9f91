// SPDX-License-Identifier: MIT
#include "bench/figures/spread.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(SpreadOf, OddCount) {
  const Spread spread = SpreadOf({5, 1, 4, 2, 3});
  EXPECT_DOUBLE_EQ(spread.least, 1);
  EXPECT_DOUBLE_EQ(spread.lower, 2);
  EXPECT_DOUBLE_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.upper, 4);
  EXPECT_DOUBLE_EQ(spread.p99, 4.96);
  EXPECT_DOUBLE_EQ(spread.mean, 3);
}

TEST(SpreadOf, BetweenTwoSamples) {
  EXPECT_DOUBLE_EQ(SpreadOf({10, 20}).median, 15);
  EXPECT_DOUBLE_EQ(SpreadOf({10, 20}).lower, 12.5);
}

TEST(SpreadOf, OneAndNone) {
  EXPECT_DOUBLE_EQ(SpreadOf({7}).p99, 7);
  EXPECT_DOUBLE_EQ(SpreadOf({7}).lower, 7);
  EXPECT_DOUBLE_EQ(SpreadOf({1, 1, 1, 9}).mean, 3);
  EXPECT_DOUBLE_EQ(SpreadOf({}).median, 0);
}

}  // namespace
}  // namespace mnemon
