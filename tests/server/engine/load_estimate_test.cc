// SPDX-License-Identifier: MIT
#include "server/engine/load_estimate.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

using Duration = LoadEstimate::Duration;

TEST(LoadEstimate, NothingIsKnownAtFirst) {
  LoadEstimate estimate(64);
  EXPECT_FALSE(estimate.measured());
  EXPECT_EQ(estimate.WaitTime(100, 0, 0), Duration(0));
  EXPECT_EQ(estimate.UnitsOf(130, 8), 3 + 8);
  EXPECT_EQ(estimate.UnitsOf(0, 1 << 30), 32);
}

TEST(LoadEstimate, CallsEndAsTheyHaveEnded) {
  LoadEstimate estimate(64);
  for (int i = 0; i < 50; ++i) estimate.RecordEnd(100);
  EXPECT_EQ(estimate.UnitsOf(64, 65536), 101);
  EXPECT_EQ(estimate.UnitsOf(64, 20), 21);
}

// Against a simulation: R calls of u units run, each step of 10 ms gives each one unit,
// and others wait in order.
TEST(LoadEstimate, WaitTimeIsThatOfASimulation) {
  for (const int running : {1, 4, 16}) {
    for (const int waiting : {0, 3, 40}) {
      constexpr int kUnits = 50;
      LoadEstimate estimate(64);
      for (int i = 0; i < 100; ++i) estimate.RecordStep(Duration(0.010));
      std::vector<int> left;  // spread over the whole length
      for (int i = 0; i < running; ++i) left.push_back(1 + i * kUnits / running);
      const int64_t units = std::accumulate(left.begin(), left.end(), int64_t{0});
      int queue = waiting;
      int steps = 0;
      for (bool started = false; !started; ++steps) {
        for (int& l : left) {
          if (--l > 0) continue;
          started = queue-- == 0;
          l = kUnits;
          if (started) break;
        }
      }
      const double estimated =
          estimate.WaitTime(waiting * kUnits, units, running).count();
      EXPECT_NEAR(estimated, steps * 0.010, 0.010 * (kUnits / running + 3))
          << running << " " << waiting;
    }
  }
}

TEST(LoadEstimate, FollowsTheLoad) {
  LoadEstimate estimate(64);
  for (int i = 0; i < 200; ++i) estimate.RecordStep(Duration(0.001));
  EXPECT_NEAR(estimate.RunTime(10).count(), 0.010, 1e-6);
  for (int i = 0; i < 200; ++i) estimate.RecordStep(Duration(0.005));
  EXPECT_NEAR(estimate.RunTime(10).count(), 0.050, 1e-4);
}

}  // namespace
}  // namespace mnemon
