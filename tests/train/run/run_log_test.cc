// SPDX-License-Identifier: MIT
// The files of a run's log, and how they are cut when the run goes on.
#include "train/run/run_log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

constexpr char kMetrics[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy,tokens,seconds,"
    "tokens_per_second\n";
constexpr char kMetricsBefore[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy\n";

class RunLogTest : public testing::Test {
 protected:
  RunLog Open(int64_t bytes, int64_t step) const {
    absl::StatusOr<RunLog> log = RunLog::Open(tmp_.path(), bytes, step);
    EXPECT_TRUE(log.ok()) << log.status();
    return std::move(*log);
  }
  static void Append(RunLog& log, int64_t step) {
    EXPECT_TRUE(log.Append({.step = step,
                            .loss = 1,
                            .tokens = 10 * step,
                            .seconds = 0.25,
                            .tokens_per_second = 12.34})
                    .ok());
    EXPECT_TRUE(log.Append(SampleRow{.step = step, .text = "a\n\"b"}).ok());
  }

  const TemporaryDirectory tmp_;
};

TEST_F(RunLogTest, RowsAreCutBackToTheCheckpoint) {
  int64_t bytes = 0;
  std::string metrics, samples;
  {
    RunLog log = Open(0, 0);
    Append(log, 10);
    ASSERT_TRUE(log.Sync().ok());
    bytes = log.metrics_bytes();
    metrics = tmp_.Get("metrics.csv");
    samples = tmp_.Get("samples.jsonl");
    EXPECT_EQ(metrics, std::string(kMetrics) + "10,1,,0,0,,100,0.250,12.3\n");
    EXPECT_EQ(samples, "{\"step\":10,\"text\":\"a\\n\\\"b\"}\n");
    EXPECT_EQ(bytes, static_cast<int64_t>(metrics.size()));
    Append(log, 20);
    Append(log, 30);
  }
  {
    RunLog log = Open(bytes, 10);
    EXPECT_EQ(tmp_.Get("metrics.csv"), metrics);
    EXPECT_EQ(tmp_.Get("samples.jsonl"), samples);
    Append(log, 20);
    EXPECT_THAT(tmp_.Get("metrics.csv"), testing::StartsWith(metrics + "20,"));
  }
  // Rows are missing: nothing is cut.
  const std::string whole = tmp_.Get("metrics.csv");
  const absl::Status short_file = RunLog::Open(tmp_.path(), bytes + 1, 10).status();
  EXPECT_EQ(short_file.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(short_file.message()),
              testing::HasSubstr("the checkpoint was made with"));
  EXPECT_EQ(tmp_.Get("metrics.csv"), whole);
  Open(0, 0);
  EXPECT_EQ(tmp_.Get("metrics.csv"), kMetrics);
  EXPECT_EQ(tmp_.Get("samples.jsonl"), "");
}

// Also if the process ended after the rewriting and before a checkpoint.
TEST_F(RunLogTest, ARunOfAnEarlierVersionGoesOn) {
  const std::string before = std::string(kMetricsBefore) + "10,1,,0,0,\n";
  const std::string current = std::string(kMetrics) + "10,1,,0,0,,,,\n";
  tmp_.Put("metrics.csv", before + "20,1,,0,0,\n30,");
  for (int times = 0; times < 2; ++times) {
    RunLog log = Open(static_cast<int64_t>(before.size()), 10);
    EXPECT_EQ(tmp_.Get("metrics.csv"), current);
    Append(log, 20);
    EXPECT_EQ(tmp_.Get("metrics.csv"), current + "20,1,,0,0,,200,0.250,12.3\n");
  }
}

// As a crash leaves them.
TEST_F(RunLogTest, WhatIsCutOffOrNoRowGoes) {
  const std::string row = std::string(kMetrics) + "5,1,,0,0,,50,0.1,3\n";
  const std::string sample = "{\"step\":5,\"text\":\"x\"}\n";
  for (const char* const torn :
       {"6,1,,0,0", "?\n6,1,,0,0,,60,0.1,2\n", "{\"step\":6,\"te", "{}\n"}) {
    tmp_.Put("metrics.csv", row + torn);
    tmp_.Put("samples.jsonl", sample + torn);
    Open(0, 9);
    EXPECT_EQ(tmp_.Get("metrics.csv"), row) << torn;
    EXPECT_EQ(tmp_.Get("samples.jsonl"), sample) << torn;
  }
  tmp_.Put("metrics.csv", "another,header\n5,0.1,3\n");
  Open(0, 9);
  EXPECT_EQ(tmp_.Get("metrics.csv"), kMetrics);
}

TEST_F(RunLogTest, BytesThatAreNoTextAreReplaced) {
  RunLog log = Open(0, 0);
  ASSERT_TRUE(log.Append(SampleRow{.step = 1, .text = "a\xff b"}).ok());
  EXPECT_EQ(tmp_.Get("samples.jsonl"), "{\"step\":1,\"text\":\"a\uFFFD b\"}\n");
}

TEST_F(RunLogTest, ADeviceIsNoRowFile) {
  EXPECT_EQ(
      RowFile::OpenUpTo("/dev/null", "x", 0, 0, [](auto) { return 0; }).status().code(),
      absl::StatusCode::kInvalidArgument);
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
