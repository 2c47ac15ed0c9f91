// SPDX-License-Identifier: MIT
#include "client/load/load_figures.h"

#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A call sent at 0 whose messages have 1, 4 and 1 tokens at 30, 50 and 60 ms, and
// which ends at 80 ms.
CallTimes KnownCall() {
  const TimePoint begin{};
  CallTimes times(begin);
  EXPECT_FALSE(times.OnTokens(begin + milliseconds(30), 1));
  EXPECT_DOUBLE_EQ(*times.OnTokens(begin + milliseconds(50), 4), 0.005);
  EXPECT_DOUBLE_EQ(*times.OnTokens(begin + milliseconds(60), 1), 0.010);
  times.OnEnd(begin + milliseconds(80));
  return times;
}

TEST(CallTimes, AreDefinedAsDocumented) {
  const CallTimes times = KnownCall();
  EXPECT_EQ(times.tokens(), 6);
  EXPECT_DOUBLE_EQ(*times.ttft(), 0.030);
  EXPECT_DOUBLE_EQ(*times.itl(), 0.0075);
  EXPECT_DOUBLE_EQ(*times.tpot(), 0.010);
  EXPECT_DOUBLE_EQ(times.e2e(), 0.080);
}

TEST(CallTimes, OfOneTokenAndOfNone) {
  CallTimes times(TimePoint{});
  EXPECT_FALSE(times.ttft());
  times.OnTokens(TimePoint{} + milliseconds(5), 1);
  times.OnEnd(TimePoint{} + milliseconds(6));
  EXPECT_TRUE(times.ttft());
  EXPECT_FALSE(times.itl());
  EXPECT_FALSE(times.tpot());
}

TEST(Goodput, ReadsLimits) {
  const GoodputLimits limits = *ParseGoodputLimits("ttft=100ms,itl=3.5ms,e2e=2s");
  EXPECT_DOUBLE_EQ(*limits.ttft, 0.1);
  EXPECT_DOUBLE_EQ(*limits.itl, 0.0035);
  EXPECT_DOUBLE_EQ(*limits.e2e, 2);
  EXPECT_FALSE(limits.tpot);
  EXPECT_DOUBLE_EQ(*ParseGoodputLimits("tpot=500us")->tpot, 0.0005);
  EXPECT_FALSE(ParseGoodputLimits("")->any());
  for (const char* const text :
       {"x=1ms", "ttft", "ttft=", "ttft=5", "ttft=0s", "ttft=-1s", "ttft=1m",
        "ttft=1ms,ttft=2ms", ",", "ttft=1ms,,itl=1ms", "ttft=1e999s", "ttft=99999s"}) {
    EXPECT_FALSE(ParseGoodputLimits(text).ok()) << text;
  }
  EXPECT_THAT(ParseGoodputLimits("ttft=1ms,tfft=1ms").status().message(),
              HasSubstr("'tfft=1ms'"));
}

TEST(Goodput, CountsCallsThatMeetEveryLimit) {
  for (const auto& [text, good] :
       {std::pair{"ttft=31ms,itl=8ms,tpot=11ms,e2e=81ms", 1}, std::pair{"ttft=29ms", 0},
        std::pair{"itl=7ms", 0}, std::pair{"tpot=9ms", 0}, std::pair{"e2e=79ms", 0},
        std::pair{"", 1}}) {
    LoadFigures figures(*ParseGoodputLimits(text));
    figures.AddCompleted(KnownCall(), {});
    EXPECT_EQ(figures.good(), good) << text;
  }
  CallTimes empty(TimePoint{});
  empty.OnEnd(TimePoint{} + milliseconds(1));
  EXPECT_FALSE(Meets(empty, {.ttft = 1}));
  EXPECT_TRUE(Meets(empty, {.itl = 1}));
}

TEST(LoadFigures, CountsErrorsByCodeAndReason) {
  LoadFigures figures{GoodputLimits{}};
  const absl::Status refused =
      MakeError(absl::StatusCode::kResourceExhausted, "full",
                {.reason = "QUEUE_FULL", .retry_after = milliseconds(5)});
  figures.AddFailed(refused);
  figures.AddFailed(refused);
  figures.AddFailed(MakeError(absl::StatusCode::kResourceExhausted, "no blocks",
                              {.reason = "NO_FREE_BLOCKS"}));
  figures.AddFailed(absl::DeadlineExceededError("late"));
  EXPECT_EQ(figures.refused(), 2);
  EXPECT_EQ(figures.failed(), 2);
  EXPECT_EQ(figures.errors().at({"RESOURCE_EXHAUSTED", "QUEUE_FULL"}), 2);
  EXPECT_EQ(figures.errors().at({"RESOURCE_EXHAUSTED", "NO_FREE_BLOCKS"}), 1);
  EXPECT_EQ(figures.errors().at({"DEADLINE_EXCEEDED", ""}), 1);
}

TEST(LoadFigures, KeepsABoundedNumberOfReasons) {
  LoadFigures figures{GoodputLimits{}};
  for (int i = 0; i < 100; ++i) {
    figures.AddFailed(MakeError(absl::StatusCode::kInternal, "x",
                                {.reason = StrCat(std::string(1000, 'A'), i)}));
    figures.AddFailed(
        MakeError(absl::StatusCode::kInternal, "x", {.reason = StrCat("R", i)}));
  }
  EXPECT_EQ(figures.errors().size(), 33u);
  EXPECT_EQ(figures.errors().at({"INTERNAL", std::string(63, 'A')}), 100);
  EXPECT_EQ(figures.errors().at({"OTHER", ""}), 100 - 31);
}

}  // namespace
}  // namespace mnemon::client
