// SPDX-License-Identifier: MIT
#include "train/metrics.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Metrics, RowsHaveEveryBitOfAFloat) {
  MetricsRow row = {
      .step = 10, .loss = 1.0 / 3, .learning_rate = 1e-3, .gradient_norm = 2};
  EXPECT_EQ(FormatMetricsRow(row), "10,0.333333333,,0.001,2,");
  row.validation = 2.5;
  EXPECT_EQ(FormatMetricsRow(row), "10,0.333333333,2.5,0.001,2,");
  row.accuracy = 0.75;
  EXPECT_EQ(FormatMetricsRow(row), "10,0.333333333,2.5,0.001,2,0.75");
}

}  // namespace
}  // namespace mnemon
