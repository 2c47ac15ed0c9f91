// SPDX-License-Identifier: MIT
// The files of a run's log, and how they are cut when the run goes on.
#include "train/run_log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

constexpr char kMetrics[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy\n";
constexpr char kSpeed[] = "step,seconds,tokens_per_second\n";

class RunLogTest : public testing::Test {
 protected:
  RunLog Open(int64_t bytes, int64_t step) const {
    absl::StatusOr<RunLog> log = RunLog::Open(tmp_.path(), bytes, step);
    EXPECT_TRUE(log.ok()) << log.status();
    return std::move(*log);
  }
  static void Append(RunLog& log, int64_t step) {
    EXPECT_TRUE(log.Append({.step = step, .loss = 1},
                           {.step = step, .seconds = 0.25, .tokens_per_second = 12.34})
                    .ok());
    EXPECT_TRUE(log.Append(SampleRow{.step = step, .text = "a\n\"b"}).ok());
  }

  const TemporaryDirectory tmp_;
};

TEST_F(RunLogTest, RowsAreCutBackToTheCheckpoint) {
  int64_t bytes = 0;
  std::string metrics, speed, samples;
  {
    RunLog log = Open(0, 0);
    Append(log, 10);
    ASSERT_TRUE(log.Sync().ok());
    bytes = log.metrics_bytes();
    metrics = tmp_.Get("metrics.csv");
    speed = tmp_.Get("speed.csv");
    samples = tmp_.Get("samples.jsonl");
    EXPECT_EQ(metrics, std::string(kMetrics) + "10,1,,0,0,\n");
    EXPECT_EQ(speed, std::string(kSpeed) + "10,0.250,12.3\n");
    EXPECT_EQ(samples, "{\"step\":10,\"text\":\"a\\n\\\"b\"}\n");
    EXPECT_EQ(bytes, static_cast<int64_t>(metrics.size()));
    Append(log, 20);
    Append(log, 30);
  }
  {
    RunLog log = Open(bytes, 10);
    EXPECT_EQ(tmp_.Get("metrics.csv"), metrics);
    EXPECT_EQ(tmp_.Get("speed.csv"), speed);
    EXPECT_EQ(tmp_.Get("samples.jsonl"), samples);
    Append(log, 20);
    EXPECT_THAT(tmp_.Get("speed.csv"), testing::StartsWith(speed + "20,"));
  }
  EXPECT_EQ(RunLog::Open(tmp_.path(), 4096, 20).status().code(),
            absl::StatusCode::kDataLoss);
  Open(0, 0);
  EXPECT_EQ(tmp_.Get("metrics.csv"), kMetrics);
  EXPECT_EQ(tmp_.Get("speed.csv"), kSpeed);
  EXPECT_EQ(tmp_.Get("samples.jsonl"), "");
}

// As a crash leaves them.
TEST_F(RunLogTest, WhatIsCutOffOrNoRowGoes) {
  const std::string sample = "{\"step\":5,\"text\":\"x\"}\n";
  tmp_.Put("metrics.csv", kMetrics);
  for (const char* const torn : {"6,0.1", "?\n6,0.1,2\n", "{\"step\":6,\"te", "{}\n"}) {
    tmp_.Put("speed.csv", std::string(kSpeed) + "5,0.1,3\n" + torn);
    tmp_.Put("samples.jsonl", sample + torn);
    Open(0, 9);
    EXPECT_EQ(tmp_.Get("speed.csv"), std::string(kSpeed) + "5,0.1,3\n") << torn;
    EXPECT_EQ(tmp_.Get("samples.jsonl"), sample) << torn;
  }
  tmp_.Put("speed.csv", "another,header\n5,0.1,3\n");
  Open(0, 9);
  EXPECT_EQ(tmp_.Get("speed.csv"), kSpeed);
}

TEST_F(RunLogTest, BytesThatAreNoTextAreReplaced) {
  RunLog log = Open(0, 0);
  ASSERT_TRUE(log.Append(SampleRow{.step = 1, .text = "a\xff b"}).ok());
  EXPECT_EQ(tmp_.Get("samples.jsonl"), "{\"step\":1,\"text\":\"a\uFFFD b\"}\n");
}

TEST_F(RunLogTest, ADeviceIsNoRowFile) {
  EXPECT_EQ(RowFile::Open("/dev/full", "x", 0).status().code(),
            absl::StatusCode::kInternal)
      << "a device cannot be cut";
}

TEST(SampleRow, IsReadFromItsOwnLinesAlone) {
  EXPECT_EQ(ParseSampleRow("{\"step\":7,\"text\":\"t\"}")->step, 7);
  for (const char* const line :
       {"", "7", "[]", "{\"step\":-7,\"text\":\"t\"}", "{\"step\":7,\"text\":1}",
        "{\"text\":\"t\"}", "{\"step\":1e99,\"text\":\"t\"}"}) {
    EXPECT_FALSE(ParseSampleRow(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace mnemon
