// SPDX-License-Identifier: MIT
#include "client/load/arrivals.h"

#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

TEST(Arrivals, HaveTheRateAndTheSpreadOfAPoissonProcess) {
  constexpr int kCount = 20000;
  constexpr double kRate = 50;
  Arrivals arrivals(kRate, 3);
  double last = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double at = arrivals.Next();
    ASSERT_GE(at, last);
    squares += (at - last) * (at - last);
    last = at;
  }
  const double mean = last / kCount;
  EXPECT_NEAR(mean * kRate, 1, 0.03);
  // The deviation of exponential gaps is their mean; even gaps would have none.
  EXPECT_NEAR((squares / kCount - mean * mean) / (mean * mean), 1, 0.1);
}

TEST(Arrivals, AreAFunctionOfTheSeed) {
  Arrivals one(7, 5), same(7, 5), other(7, 6);
  for (int i = 0; i < 100; ++i) {
    const double at = one.Next();
    EXPECT_EQ(at, same.Next());
    EXPECT_NE(at, other.Next());
  }
}

}  // namespace
}  // namespace mnemon::client
