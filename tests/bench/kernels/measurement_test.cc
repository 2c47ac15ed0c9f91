// SPDX-License-Identifier: MIT
#include "bench/kernels/measurement.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Samples, NotesWhatACallTookAndAllocated) {
  Samples samples(3600);
  std::vector<std::unique_ptr<int>> kept;
  kept.reserve(3);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(samples
                    .Time([&] {
                      kept.push_back(std::make_unique<int>(i));
                      return absl::OkStatus();
                    })
                    .ok());
  }
  EXPECT_EQ(samples.count(), 3);
  double sum = 0;
  for (const double seconds : samples.seconds()) {
    EXPECT_GE(seconds, 0);
    sum += seconds;
  }
  EXPECT_DOUBLE_EQ(samples.spent(), sum);
  EXPECT_FALSE(samples.done());
  if (!CountsAllocations()) GTEST_SKIP() << "a sanitizer counts in its place";
  EXPECT_EQ(samples.allocated().calls, 3);
  EXPECT_EQ(samples.allocated().bytes, static_cast<int64_t>(3 * sizeof(int)));
}

TEST(Samples, AFailureIsNoSample) {
  Samples samples(3600);
  const absl::Status status = samples.Time([] { return absl::DataLossError("lost"); });
  EXPECT_EQ(status, absl::DataLossError("lost"));
  EXPECT_EQ(samples.count(), 0);
  EXPECT_EQ(samples.spent(), 0);
}

TEST(Samples, EnoughIsEnough) {
  Samples samples(1e-12);
  EXPECT_FALSE(samples.done());
  while (!samples.done()) {
    ASSERT_TRUE(samples.Time([] { return absl::OkStatus(); }).ok());
  }
  EXPECT_GE(samples.spent(), 1e-12);
  EXPECT_LT(samples.count(), 1000);
}

TEST(DescribeTimes, InUnits) {
  Record record;
  DescribeTimes("step_us", {1e-6, 2e-6, 3e-6, 4e-6, 5e-6}, 1e-6, record);
  EXPECT_EQ(record.Text("step_us.min", 2), "1.00");
  EXPECT_EQ(record.Text("step_us.q25", 2), "2.00");
  EXPECT_EQ(record.Text("step_us.median", 2), "3.00");
  EXPECT_EQ(record.Text("step_us.q75", 2), "4.00");
  EXPECT_EQ(record.Text("step_us.p99", 2), "4.96");
}

TEST(DescribeFloor, TellsBothSidesAndTheLarger) {
  Record record;
  DescribeFloor("floor_ms", {.bytes_seconds = 2e-3, .flop_seconds = 5e-3}, 1e-3,
                record);
  EXPECT_EQ(record.Text("floor_ms.bytes", 1), "2.0");
  EXPECT_EQ(record.Text("floor_ms.flop", 1), "5.0");
  EXPECT_EQ(record.Text("floor_ms.floor", 1), "5.0");
}

}  // namespace
}  // namespace mnemon
