// SPDX-License-Identifier: MIT
#include "train/report/distance_weights.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;

TEST(MeanByDistance, CountsTheQueriesThatCanLookSoFarBack) {
  // Two queries after one key in memory.
  const std::vector<float> weights = {0.25f, 0.75f, 0,  //
                                      0.5f,  0.25f, 0.125f};
  EXPECT_THAT(MeanByDistance(weights, 3),
              ElementsAre((0.75 + 0.125) / 2, (0.25 + 0.25) / 2, 0.5));
  EXPECT_THAT(MeanByDistance(std::vector<float>{1}, 1), ElementsAre(1));
}

}  // namespace
}  // namespace mnemon
