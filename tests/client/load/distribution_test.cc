// SPDX-License-Identifier: MIT
#include "client/load/distribution.h"

#include <cmath>

#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

TEST(Distribution, OfNothingIsZero) {
  const Distribution nothing;
  EXPECT_EQ(nothing.count(), 0);
  EXPECT_EQ(nothing.mean(), 0);
  EXPECT_EQ(nothing.deviation(), 0);
  EXPECT_EQ(nothing.max(), 0);
  EXPECT_EQ(nothing.Quantile(0.99), 0);
}

TEST(Distribution, MomentsAreExactAndQuantilesWithinOnePercent) {
  Distribution times;
  for (int i = 1000; i >= 1; --i) times.Add(i * 1e-3);
  EXPECT_EQ(times.count(), 1000);
  EXPECT_NEAR(times.mean(), 0.5005, 1e-9);
  EXPECT_NEAR(times.deviation(), std::sqrt(1000 * 1001 / 12.0) * 1e-3, 1e-9);
  EXPECT_EQ(times.max(), 1.0);
  for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_NEAR(times.Quantile(share), share, 0.011 * share);
  }
}

TEST(Distribution, HoldsTimesOfAnySize) {
  Distribution times;
  times.Add(-1);
  times.Add(0);
  times.Add(1e9);
  EXPECT_EQ(times.count(), 3);
  EXPECT_EQ(times.max(), 1e9);
  EXPECT_LE(times.Quantile(0.5), 1e-6);
  EXPECT_NEAR(times.Quantile(1), 86400, 900);
}

}  // namespace
}  // namespace mnemon::client
