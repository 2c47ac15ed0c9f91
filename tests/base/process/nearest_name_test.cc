// SPDX-License-Identifier: MIT
#include "base/process/nearest_name.h"

#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(NearestName, FindsTypingErrorsOnly) {
  const std::vector<std::string> names = {"learning_rate", "steps", "seed", "x"};
  EXPECT_EQ(NearestName("learnin_rate", names), "learning_rate");
  EXPECT_EQ(NearestName("step", names), "steps");
  EXPECT_EQ(NearestName("seeed", names), "seed");
  EXPECT_EQ(NearestName("colour", names), "");
  EXPECT_EQ(NearestName("q", names), "");
  EXPECT_EQ(NearestName(std::string(1 << 20, 's'), names), "");
  EXPECT_EQ(NearestName("steps", {}), "");
  EXPECT_EQ(DidYouMean("step", names), "; did you mean steps?");
  EXPECT_EQ(DidYouMean("colour", names), "");
}

}  // namespace
}  // namespace mnemon
