// SPDX-License-Identifier: MIT
#include "server/service/serialized_handler.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(CallSerializer, HasOneHolderAndLosesNoRequest) {
  CallSerializer turn;
  EXPECT_FALSE(turn.Acquire());
  EXPECT_FALSE(turn.Release());
  EXPECT_TRUE(turn.Release());
  EXPECT_TRUE(turn.Acquire());
  EXPECT_FALSE(turn.AcquireToStop(absl::AbortedError("first")));
  EXPECT_FALSE(turn.AcquireToStop(absl::AbortedError("second")));
  EXPECT_FALSE(turn.Release());
  EXPECT_EQ(turn.stop()->message(), "first");
}

}  // namespace
}  // namespace mnemon
