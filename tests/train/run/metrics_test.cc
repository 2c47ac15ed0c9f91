// SPDX-License-Identifier: MIT
#include "train/run/metrics.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Metrics, RowsHaveEveryBitOfAFloat) {
  MetricsRow row = {
      .step = 10, .loss = 1.0 / 3, .learning_rate = 1e-3, .gradient_norm = 2};
  EXPECT_EQ(FormatMetricsRow(row), "10,0.333333333,,0.001,2,,,,");
  row.validation = 2.5;
  EXPECT_EQ(FormatMetricsRow(row), "10,0.333333333,2.5,0.001,2,,,,");
  row.accuracy = 0.75;
  row.tokens = int64_t{1} << 60;
  row.seconds = 1234567.8904;
  row.tokens_per_second = 2.04;
  EXPECT_EQ(FormatMetricsRow(row),
            "10,0.333333333,2.5,0.001,2,0.75,1152921504606846976,1234567.890,2.0");
}

TEST(Metrics, RowsAreReadBack) {
  for (const char* const line :
       {"10,0.333333333,,0.001,2,,,,", "10,0.333333333,2.5,0.001,2,0.75,7,1.500,2.0"}) {
    const std::optional<MetricsRow> row = ParseMetricsRow(line);
    ASSERT_TRUE(row.has_value()) << line;
    EXPECT_EQ(FormatMetricsRow(*row), line);
  }
  for (const char* const line :
       {"", "10,1,,1,2,", "10,1,,1,2,,-7,,", "10,1,,1,2,,7.5,,", "10,1,,1,2,,7,nan,",
        "10,1,,1,2,,7,,inf", "10,1,,1,2,,7,1,1,1", "x,1,,1,2,,,,"}) {
    EXPECT_FALSE(ParseMetricsRow(line).has_value()) << line;
  }
}

TEST(Metrics, ThoseOfAnEarlierVersionGetTheColumns) {
  const std::string before =
      "step,loss,validation,learning_rate,gradient_norm,accuracy\n";
  const std::string header = std::string(kMetricsHeader) + "\n";
  EXPECT_EQ(CurrentMetrics(before), header);
  EXPECT_EQ(CurrentMetrics(before + "1,2,,3,4,\n2,2,,3,4,1\n3,2"),
            header + "1,2,,3,4,,,,\n2,2,,3,4,1,,,\n3,2");
  for (const std::string& other : {header + "1,2,,3,4,,,,\n", std::string("a,b\n1,2\n"),
                                   std::string("step,loss"), std::string()}) {
    EXPECT_EQ(CurrentMetrics(other), other);
  }
}

}  // namespace
}  // namespace mnemon
