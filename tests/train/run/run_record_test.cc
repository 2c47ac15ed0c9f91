// SPDX-License-Identifier: MIT
#include "train/run/run_record.h"

#include <filesystem>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kMetrics[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy,tokens,seconds,"
    "tokens_per_second\n"
    "10,3.5,,0.001,1.5,,100,1.5,100\n"
    "20,3,2.75,0.002,1e-3,0.5,200,3.25,200.5\n";

class RunRecordTest : public testing::Test {
 protected:
  RunRecordTest() { tmp_.Put("metrics.csv", kMetrics); }

  absl::StatusOr<std::vector<RunRecord>> Read() const {
    return ReadRuns({tmp_.path()});
  }
  RunRecord MustRead() const {
    auto runs = Read();
    EXPECT_TRUE(runs.ok()) << runs.status();
    return runs.ok() ? runs->at(0) : RunRecord();
  }
  std::string Error() const { return std::string(Read().status().message()); }

  const TemporaryDirectory tmp_;
};

TEST_F(RunRecordTest, ReadsTheFilesOfARun) {
  tmp_.Put("samples.jsonl", "{\"step\":20,\"text\":\"a\\nb\"}\n");
  const RunRecord run = MustRead();
  ASSERT_EQ(run.metrics.size(), 2u);
  EXPECT_EQ(run.metrics[0].step, 10);
  EXPECT_EQ(run.metrics[0].loss, 3.5);
  EXPECT_FALSE(run.metrics[0].validation.has_value());
  EXPECT_EQ(run.metrics[1].validation, 2.75);
  EXPECT_EQ(run.metrics[1].learning_rate, 0.002);
  EXPECT_EQ(run.metrics[1].gradient_norm, 1e-3);
  EXPECT_EQ(run.metrics[1].accuracy, 0.5);
  EXPECT_EQ(run.metrics[1].tokens, 200);
  EXPECT_EQ(run.metrics[1].tokens_per_second, 200.5);
  EXPECT_EQ(run.samples[0].text, "a\nb");
  EXPECT_EQ(run.SecondsAt(9), 0);
  EXPECT_EQ(run.SecondsAt(10), 1.5);
  EXPECT_EQ(run.SecondsAt(19), 1.5);
  EXPECT_EQ(run.SecondsAt(25), 3.25);
  EXPECT_EQ(run.Seconds(), 3.25);
  EXPECT_EQ(run.architecture, "");
  EXPECT_GT(run.began, 1e9);
  EXPECT_EQ(run.name, fs::path(tmp_.path()).filename());
}

TEST_F(RunRecordTest, ARunOfBeforeOrUnderWayIsRead) {
  EXPECT_THAT(MustRead().samples, IsEmpty());
  tmp_.Put("metrics.csv", std::string(kMetrics) + "30,2.");
  tmp_.Put("samples.jsonl", "{\"step\":20,\"te");
  EXPECT_EQ(MustRead().metrics.size(), 2u);
  EXPECT_THAT(MustRead().samples, IsEmpty());
  tmp_.Put("metrics.csv", "step,lo");
  EXPECT_THAT(MustRead().metrics, IsEmpty());
  tmp_.Put("metrics.csv",
           "step,loss,validation,learning_rate,gradient_norm,accuracy\n"
           "10,3.5,,0.001,1.5,\n20,3,2,1,1,1\n30");
  const RunRecord before = MustRead();
  ASSERT_EQ(before.metrics.size(), 2u);
  EXPECT_EQ(before.metrics[0].loss, 3.5);
  EXPECT_EQ(before.metrics[1].accuracy, 1);
  EXPECT_FALSE(before.metrics[1].tokens.has_value());
  EXPECT_FALSE(before.metrics[1].seconds.has_value());
  EXPECT_EQ(before.Seconds(), 0);
}

TEST_F(RunRecordTest, TheArchitectureIsThatOfACheckpoint) {
  fs::create_directory(tmp_.Path("last"));
  const std::string head = R"({"architecture": ")";
  const std::string rest =
      R"(", "d_model": 8, "heads": 2, "layers": 1, "d_ff": 16, "vocab": 4)";
  tmp_.Put("last/config.json", StrCat(head, "causal", rest, "}"));
  EXPECT_EQ(MustRead().architecture, "causal");
  tmp_.Put("last/config.json",
           StrCat(head, "feedback", rest, R"(, "projection": "shared"})"));
  EXPECT_EQ(MustRead().architecture, "feedback_shared");
  tmp_.Put("last/config.json", "damage");
  EXPECT_EQ(MustRead().architecture, "");
}

TEST_F(RunRecordTest, DamageIsNamedWithItsLine) {
  for (const char* const row :
       {"x", "30,2.5,,0.1,1,", "30,2.5,,0.1,1,,,,,", "30,2.5x,,0.1,1,,,,",
        "30,,,0.1,1,,,,", "3e1,2.5,,0.1,1,,,,", "30,2.5,,0.1,1,,,nan,", ""}) {
    tmp_.Put("metrics.csv", std::string(kMetrics) + row + "\n");
    EXPECT_THAT(Error(), HasSubstr("metrics.csv, line 4")) << row;
    EXPECT_EQ(Read().status().code(), absl::StatusCode::kDataLoss);
  }
  tmp_.Put("metrics.csv", std::string(kMetrics) + "20,2.5,,0.1,1,,,,\n");
  EXPECT_THAT(Error(), HasSubstr("line 4: update 20 does not come after update 20"));
  tmp_.Put("metrics.csv", "a,b\n1,2\n");
  EXPECT_THAT(Error(), AllOf(HasSubstr("line 1"), HasSubstr("header")));
  tmp_.Put("metrics.csv", kMetrics);
  tmp_.Put("samples.jsonl", "{\"step\":20,\"text\":\"a\"}\n{]\n");
  EXPECT_THAT(Error(), HasSubstr("samples.jsonl, line 2"));
}

TEST_F(RunRecordTest, WhatIsNoRunIsNamed) {
  const auto error = [](const std::string& path) {
    const absl::Status status = ReadRuns({path}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error(tmp_.Path("none")), HasSubstr(tmp_.Path("none")));
  EXPECT_THAT(error(tmp_.Path("metrics.csv")), HasSubstr("is not a run directory"));
  fs::create_directory(tmp_.Path("empty"));
  EXPECT_THAT(error(tmp_.Path("empty")), HasSubstr("has no metrics.csv"));
}

TEST_F(RunRecordTest, NamesAreShortWhereTheyDiffer) {
  for (const char* const run : {"a/x", "b/x", "b/<y>", "b/_y_"}) {
    fs::create_directories(tmp_.Path(run));
    tmp_.Put(std::string(run) + "/metrics.csv", kMetrics);
  }
  const auto runs = ReadRuns(
      {tmp_.Path("a/x"), tmp_.Path("b/x/"), tmp_.Path("b/<y>"), tmp_.Path("b/_y_")});
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ((*runs)[0].name, tmp_.Path("a/x"));
  EXPECT_EQ((*runs)[1].name, tmp_.Path("b/x/"));
  EXPECT_EQ((*runs)[2].name, "<y>");
  EXPECT_EQ((*runs)[2].folder, "_y_");
  EXPECT_EQ((*runs)[3].folder, "_y_-2");
  EXPECT_THAT((*runs)[0].folder, testing::MatchesRegex("[-_.A-Za-z0-9]+"));
}

}  // namespace
}  // namespace mnemon
