// SPDX-License-Identifier: MIT
// The arithmetic of mnemon-scenarios.
#include <fcntl.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bench/serving/bar_results.h"
#include "bench/serving/metrics_page.h"
#include "bench/serving/process_use.h"
#include "bench/serving/traffic.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon::serving {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPage[] =
    "# HELP calls_total text\n"
    "calls_total{model=\"a\"} 3\n"
    "calls_total{model=\"b\"} 4\n"
    "calls_total_more 100\n"
    "took_bucket{m=\"x\",le=\"0.01\"} 90\n"
    "took_bucket{m=\"x\",le=\"0.05\"} 98\n"
    "took_bucket{m=\"x\",le=\"+Inf\"} 100\n"
    "took_bucket{m=\"y\",le=\"0.01\"} 7\n"
    "took_count{m=\"x\"} 100\n"
    "took_sum{m=\"x\"} 2\n";

TEST(MetricsPage, SumsTheSeriesOfANameThatHoldTheLabels) {
  const MetricsPage page = MetricsPage::Parse(kPage);
  EXPECT_EQ(page.Sum("calls_total"), 7);
  EXPECT_EQ(page.Sum("calls_total", {"model=\"b\""}), 4);
  EXPECT_EQ(page.Sum("absent"), 0);
}

TEST(MetricsPage, QuantilesAreLinearWithinABucket) {
  const HistogramPage took = MetricsPage::Parse(kPage).Histogram("took", {"m=\"x\""});
  EXPECT_DOUBLE_EQ(took.Quantile(0.45), 0.005);
  EXPECT_DOUBLE_EQ(took.Quantile(0.94), 0.03);
  EXPECT_DOUBLE_EQ(took.Quantile(0.99), 0.05) << "the last bound that is finite";
  EXPECT_DOUBLE_EQ(took.mean(), 0.02);
  EXPECT_EQ(HistogramPage().Quantile(0.99), 0);
}

TEST(MetricsPage, SinceLeavesOutWhatWasBefore) {
  const HistogramPage before{
      .buckets = {{0.01, 50}, {0.05, 50}}, .count = 50, .sum = 1};
  const HistogramPage now{.buckets = {{0.01, 50}, {0.05, 60}}, .count = 60, .sum = 2};
  const HistogramPage since = Since(before, now);
  EXPECT_EQ(since.count, 10);
  EXPECT_DOUBLE_EQ(since.Quantile(0.5), 0.03);
}

TEST(BarResults, AllBarsWithin) {
  BarResults results("x", "mnemon-server 1", 1);
  results.TimeAtMost("a", 20, 20, "ms");
  results.ShareAtLeast("b", 0.9, 0.9);
  results.Exactly("c", 0, 0, "");
  results.Note("d", 1e9, "");
  EXPECT_TRUE(results.passed());
  EXPECT_THAT(results.Table(), HasSubstr("passed yes"));
}

TEST(BarResults, EachKindOfBarCanBeMissed) {
  BarResults results("x", "mnemon-server 1", 1);
  results.TimeAtMost("a", 20.1, 20, "ms");
  results.ShareAtLeast("b", 0.89, 0.9);
  results.Exactly("c", 1, 0, "");
  EXPECT_EQ(results.missed(), 3);
  EXPECT_THAT(results.Table(), HasSubstr("MISSED"));
  EXPECT_THAT(results.Json(), HasSubstr("\"passed\": false"));
}

TEST(BarResults, SlackWidensBars) {
  BarResults within("x", "mnemon-server 1", 3);
  within.TimeAtMost("a", 59, 20, "ms");
  within.ShareAtLeast("b", 0.71, 0.9);
  within.ShareAtLeast("c", 0.16, 0.45);
  EXPECT_TRUE(within.passed());
  BarResults beyond("x", "mnemon-server 1", 3);
  beyond.AtMost("a", 61, 20, "ms");
  beyond.ShareAtLeast("b", 0.69, 0.9);
  beyond.ShareAtLeast("c", 0.14, 0.45);
  beyond.Exactly("d", 1, 0, "");
  EXPECT_EQ(beyond.missed(), 4);
}

TEST(BarResults, WithoutTimesOnlyCountsAreJudged) {
  BarResults results("x", "mnemon-server 1", 1, /*timed=*/false);
  results.TimeAtMost("a", 1e9, 20, "ms");
  results.ShareAtLeast("b", 0, 0.9);
  EXPECT_TRUE(results.passed());
  EXPECT_GE(results.Patience(2), 300);
  results.AtMost("c", 21, 20, "MB");
  results.Exactly("d", 1, 0, "");
  EXPECT_EQ(results.missed(), 2);
  EXPECT_EQ(BarResults("x", "mnemon-server 1", 1).Patience(2), 2);
}

TEST(ProcessUse, CountsWhatAProcessHas) {
  const ProcessUse before = UseOf(getpid());
  EXPECT_GT(before.megabytes, 1);
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::vector<char> touched(std::size_t{64} << 20, 'x');
  std::promise<void> looked;
  std::thread thread([&] { looked.get_future().wait(); });
  const ProcessUse now = UseOf(getpid());
  looked.set_value();
  thread.join();
  close(fd);
  EXPECT_EQ(now.descriptors, before.descriptors + 1);
  EXPECT_EQ(now.threads, before.threads + 1);
  EXPECT_NEAR(now.megabytes - before.megabytes, 67, 10);
}

TEST(ProcessUse, IsNothingOfAProcessThatIsGone) {
  const ProcessUse none = UseOf(0x7fffffff);
  EXPECT_EQ(none.megabytes, 0);
  EXPECT_EQ(none.descriptors, 0);
  EXPECT_EQ(none.threads, 0);
}

TEST(CallRecord, NamesItsOutcome) {
  CallRecord call;
  EXPECT_EQ(call.outcome(), "OK");
  call.trace.status = absl::UnavailableError("gone");
  EXPECT_EQ(call.reason(), "");
  EXPECT_EQ(call.outcome(), "UNAVAILABLE");
  call.trace.status =
      MakeError(absl::StatusCode::kResourceExhausted, "full", {.reason = "QUEUE_FULL"});
  EXPECT_EQ(call.reason(), "QUEUE_FULL");
  EXPECT_EQ(call.outcome(), "QUEUE_FULL");
}

class Windows : public ::testing::Test {
 protected:
  static TimePoint At(int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }
  static CallRecord Call(const std::vector<int64_t>& arrivals, int64_t end,
                         absl::Status status = absl::OkStatus()) {
    CallRecord call;
    for (const int64_t ms : arrivals) call.trace.arrivals.push_back(At(ms));
    call.trace.end = At(end);
    call.trace.status = std::move(status);
    return call;
  }
  const std::vector<CallRecord> calls_ = {
      Call({10, 20, 900, 2500}, 2500), Call({1500, 1600}, 1700),
      Call({1100}, 1200, absl::DeadlineExceededError(""))};
  const Interval window_{At(1000), At(2000)};
};

TEST_F(Windows, CountCallsThatEndedOkByTheirTokensWithin) {
  EXPECT_DOUBLE_EQ(CompletedPerSecond(calls_, window_), 1);
  EXPECT_DOUBLE_EQ(CompletedPerSecond(calls_, {At(1000), At(1550)}), 0.5 / 0.55);
}

TEST_F(Windows, CountTheTokensThatCameWithin) {
  EXPECT_DOUBLE_EQ(TokensPerSecond(calls_, window_), 3);
}

TEST_F(Windows, HoldTheGapsThatReachIntoThem) {
  EXPECT_THAT(GapsIn(calls_, window_), ElementsAre(DoubleEq(1.6), DoubleEq(0.1)));
}

}  // namespace
}  // namespace mnemon::serving
