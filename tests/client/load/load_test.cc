// SPDX-License-Identifier: MIT
#include "client/load/load.h"

#include <atomic>
#include <thread>

#include "client/load/arrivals.h"
#include "gmock/gmock.h"
#include "tests/client/load/timed_server.h"
#include "tests/fakes/patience.h"

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;
using ::testing::SizeIs;

constexpr double kStep = 0.02;
constexpr milliseconds kStepTime{20};

// A load on `server`'s model; a closed loop of one caller unless it is changed. A
// loaded machine does not make the figures void.
LoadOptions OptionsFor(const TimedServer& server) {
  const ModelSummary model = server.NewClient()->ListModels()->front();
  return {.model = model.name,
          .draw = {.seed = 1,
                   .vocab = model.vocab,
                   .prompt_tokens = {4, 4},
                   .max_tokens = {5, 5}},
          .context_limit = model.context_limit,
          .concurrency = 1,
          .requests = 6,
          .max_lateness_seconds = 1000};
}

LoadOptions OpenLoop(LoadOptions options, double rate) {
  options.concurrency = 0;
  options.rate = rate;
  return options;
}

// A run that a test can stop.
class Running {
 public:
  Running(const TimedServer& server, const LoadOptions& options)
      : load(options, [&server] { return server.NewClient(); }),
        thread_([this] { result = load.Run(); }) {}
  ~Running() { Await(); }
  void Await() {
    if (thread_.joinable()) thread_.join();
  }

  Load load;
  absl::StatusOr<LoadResult> result = absl::UnknownError("not run");

 private:
  std::thread thread_;
};

absl::StatusOr<LoadResult> RunLoad(const TimedServer& server,
                                   const LoadOptions& options) {
  Running run(server, options);
  run.Await();
  return run.result;
}

TEST(Load, FiguresAreThoseOfAServerOfKnownSpeed) {
  const TimedServer server({.step = kStepTime});
  LoadOptions options = OptionsFor(server);
  options.warmup = 2;
  options.limits.e2e = 4.5 * kStep;  // five tokens take longer
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  const LoadFigures& figures = result->figures;
  EXPECT_EQ(result->end, LoadEnd::kDone);
  EXPECT_EQ(result->void_why, "");
  EXPECT_EQ(figures.completed(), 6);
  EXPECT_EQ(figures.failed() + figures.refused() + figures.unfinished(), 0);
  EXPECT_EQ(figures.good(), 0);
  EXPECT_EQ(figures.generated_tokens(), 30);
  EXPECT_EQ(figures.prompt_tokens(), 24);
  EXPECT_EQ(figures.resumed_tokens(), 0);
  EXPECT_EQ(figures.e2e().count(), 6);
  // Tokens that come late may share a message.
  EXPECT_GT(figures.itl().count(), 0);
  EXPECT_LE(figures.itl().count(), 24);
  EXPECT_EQ(figures.tpot().count(), 6);
  // Never faster than the steps; a noisy machine may make them slower.
  EXPECT_GT(figures.ttft().Quantile(0.5), 0.9 * kStep);
  EXPECT_GT(figures.e2e().Quantile(0.5), 4.9 * kStep);
  EXPECT_GE(result->seconds, 30 * kStep);
}

TEST(Load, TracesEachMeasuredCall) {
  const TimedServer server({.append_capacity = 64});
  LoadOptions options = OptionsFor(server);
  options.warmup = 2;
  std::vector<CallTrace> traces;
  options.on_end = [&](CallTrace trace) { traces.push_back(std::move(trace)); };
  ASSERT_TRUE(RunLoad(server, options).ok());
  ASSERT_THAT(traces, SizeIs(6));
  for (const CallTrace& trace : traces) {
    EXPECT_TRUE(trace.status.ok()) << trace.status;
    ASSERT_THAT(trace.arrivals, SizeIs(5));
    EXPECT_LT(trace.begin, trace.arrivals.front());
    EXPECT_LE(trace.arrivals.back(), trace.end);
  }
  // One that the server refuses has no token.
  traces.clear();
  options.warmup = 0;
  options.requests = 1;
  options.draw.prompt_tokens = {65, 65};
  ASSERT_TRUE(RunLoad(server, options).ok());
  ASSERT_THAT(traces, SizeIs(1));
  EXPECT_FALSE(traces[0].status.ok());
  EXPECT_THAT(traces[0].arrivals, SizeIs(0));
}

TEST(Load, OpenLoopChargesTheTimeThatACallWaits) {
  const TimedServer server({.step = kStepTime});
  LoadOptions options = OpenLoop(OptionsFor(server), 2 / kStep);
  options.draw.max_tokens = {1, 1};
  options.requests = 12;
  options.max_in_flight = 1;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->figures.completed(), 12);
  EXPECT_GT(result->figures.waited(), 3);
  EXPECT_EQ(result->figures.lateness().count(), 12 - result->figures.waited());
  // Call k ends after k + 1 steps at the earliest, whenever it was due.
  Arrivals arrivals(options.rate, options.draw.seed);
  double least = 0;
  for (int k = 0; k < 12; ++k)
    least = std::max(least, (k + 1) * kStep - arrivals.Next());
  EXPECT_GT(least, 4 * kStep);
  EXPECT_GT(result->figures.e2e().max(), 0.99 * least);
  EXPECT_GT(result->figures.ttft().max(), 0.99 * least);
}

TEST(Load, OpenLoopDoesNotWaitForCallsThatRun) {
  const TimedServer server({.step = kStepTime});
  LoadOptions options = OpenLoop(OptionsFor(server), 1000);
  options.draw.max_tokens = {20, 20};
  options.requests = 30;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->figures.completed(), 30);
  EXPECT_EQ(result->figures.waited(), 0);
}

TEST(Load, OpenLoopCountsCallsThatItCouldNotSend) {
  const TimedServer server({.step = kStepTime});
  LoadOptions options = OpenLoop(OptionsFor(server), 500);
  options.requests.reset();
  options.seconds = 0.3;
  options.max_in_flight = 2;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->figures.unsent(), 20);
  EXPECT_GT(result->figures.completed(), 0);
  Arrivals arrivals(options.rate, options.draw.seed);
  int64_t due = 0;
  while (arrivals.Next() < options.seconds) ++due;
  EXPECT_EQ(result->figures.completed() + result->figures.unsent(), due);
}

TEST(Load, FiguresOfALateClientAreVoid) {
  const TimedServer server;
  LoadOptions options = OpenLoop(OptionsFor(server), 200);
  options.max_lateness_seconds = 1e-9;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->void_why, ::testing::HasSubstr("did not keep up"));
}

TEST(Load, SessionsAreContinuedMeasuredAfterARestAndDeleted) {
  const TimedServer server({.step = kStepTime});
  LoadOptions options = OptionsFor(server);
  options.sessions = 3;
  options.rest_seconds = 0.05;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->figures.completed(), 6);
  // Each session was called twice; the second call found 9 tokens.
  EXPECT_EQ(result->figures.resumed_tokens(), 3 * 9);
  EXPECT_EQ(result->rested_ttft.count(), 3);
  EXPECT_GT(result->rested_ttft.Quantile(0.5), 0.9 * kStep);
  EXPECT_TRUE(result->not_deleted.ok());
  EXPECT_THAT(*server.NewClient()->ListSessions(), SizeIs(0));
}

TEST(Load, AFullSessionIsReplaced) {
  const TimedServer server({.append_capacity = 32});
  LoadOptions options = OptionsFor(server);
  options.sessions = 1;
  options.requests = 12;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->figures.completed(), 12);
  // Histories before the calls: 0, 9, 18, and again.
  EXPECT_EQ(result->figures.resumed_tokens(), 4 * (0 + 9 + 18));
  EXPECT_THAT(*server.NewClient()->ListSessions(), SizeIs(0));
}

TEST(Load, StopEndsCallsAndDeletesSessions) {
  const TimedServer server({.step = kStepTime});
  for (const double rate : {0.0, 100.0}) {
    // The server ends cancelled calls on its own time.
    ASSERT_TRUE(Eventually([&] { return server.engine->Stats().running == 0; }));
    LoadOptions options = OptionsFor(server);
    if (rate > 0) options = OpenLoop(options, rate);
    options.sessions = 2;
    options.draw.max_tokens = {1000, 1000};
    options.requests = 1000;
    Running run(server, options);
    ASSERT_TRUE(Eventually([&] { return server.engine->Stats().running > 0; }));
    run.load.Stop();
    run.Await();
    ASSERT_TRUE(run.result.ok()) << run.result.status();
    EXPECT_EQ(run.result->end, LoadEnd::kStopped);
    EXPECT_GT(run.result->figures.unfinished(), 0);
    EXPECT_EQ(run.result->figures.failed(), 0);
    EXPECT_THAT(*server.NewClient()->ListSessions(), SizeIs(0));
  }
}

TEST(Load, RefusalsAreCountedAndWaitedFor) {
  const TimedServer server({.service = {.max_calls_per_second = 1}});
  LoadOptions options = OptionsFor(server);
  options.concurrency = 4;
  options.draw.max_tokens = {1, 1};
  options.requests = 12;
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  const LoadFigures& figures = result->figures;
  EXPECT_GT(figures.refused(), 0);
  EXPECT_GT(figures.completed(), 0);
  EXPECT_EQ(figures.failed(), 0);
  EXPECT_EQ(figures.refused() + figures.completed(), 12);
  ASSERT_THAT(figures.errors(), SizeIs(1));
  EXPECT_EQ(figures.errors().begin()->first.first, "RESOURCE_EXHAUSTED");
  // Each of four callers waits up to a second, until there is a token in the bucket
  // again.
  EXPECT_GT(result->seconds, 0.01 * static_cast<double>(figures.refused()) / 4);
}

TEST(Load, ADeadlineEndsACall) {
  const TimedServer server({.step = kStepTime});
  LoadOptions options = OptionsFor(server);
  options.draw.max_tokens = {1000, 1000};
  options.requests = 1;
  options.deadline = milliseconds(200);
  const auto result = RunLoad(server, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->figures.failed(), 1);
  EXPECT_EQ(result->figures.errors().begin()->first.first, "DEADLINE_EXCEEDED");
}

TEST(Load, AServerThatGoesEndsTheRunWithItsFigures) {
  TimedServer server({.step = milliseconds(1)});
  LoadOptions options = OptionsFor(server);
  options.requests = 2000;
  options.concurrency = 2;
  Running run(server, options);
  ASSERT_TRUE(Eventually([&] { return server.engine->Stats().tokens_generated > 50; }));
  server.server.reset();
  run.Await();
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  EXPECT_EQ(run.result->end, LoadEnd::kServerGone);
  EXPECT_TRUE(absl::IsUnavailable(run.result->gone)) << run.result->gone;
  EXPECT_GT(run.result->figures.completed(), 0);
  EXPECT_GT(run.result->figures.failed(), 0);
}

TEST(Load, AWarmUpCallThatFailsIsTheError) {
  const TimedServer server;
  LoadOptions options = OptionsFor(server);
  options.warmup = 1;
  options.draw.vocab = 1;
  options.draw.prompt_tokens = {5000, 5000};
  EXPECT_TRUE(absl::IsFailedPrecondition(RunLoad(server, options).status()))
      << RunLoad(server, options).status();
}

}  // namespace
}  // namespace mnemon::client
