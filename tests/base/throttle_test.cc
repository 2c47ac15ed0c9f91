// SPDX-License-Identifier: MIT
#include "base/throttle.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::Optional;

TEST(Throttle, LetsABurstPassAndThenTheRate) {
  Throttle throttle(10, 3);
  const Throttle::Time start{std::chrono::hours(1)};
  for (int i = 0; i < 3; ++i) EXPECT_THAT(throttle.Pass(start), Optional(0));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(throttle.Pass(start), std::nullopt);
  EXPECT_EQ(throttle.Pass(start + milliseconds(90)), std::nullopt);
  EXPECT_THAT(throttle.Pass(start + milliseconds(110)), Optional(8));
  EXPECT_EQ(throttle.Pass(start + milliseconds(120)), std::nullopt);
}

TEST(Throttle, SavesNoMoreThanABurst) {
  Throttle throttle(10, 2);
  const Throttle::Time start{std::chrono::hours(1)};
  EXPECT_THAT(throttle.Pass(start), Optional(0));
  const Throttle::Time later = start + std::chrono::hours(10);
  EXPECT_THAT(throttle.Pass(later), Optional(0));
  EXPECT_THAT(throttle.Pass(later), Optional(0));
  EXPECT_EQ(throttle.Pass(later), std::nullopt);
}

TEST(Throttle, IgnoresTimeThatRunsBackwards) {
  Throttle throttle(10, 1);
  const Throttle::Time start{std::chrono::hours(1)};
  EXPECT_THAT(throttle.Pass(start), Optional(0));
  EXPECT_EQ(throttle.Pass(start - std::chrono::hours(1)), std::nullopt);
  EXPECT_EQ(throttle.Pass(start), std::nullopt);
}

}  // namespace
}  // namespace mnemon
