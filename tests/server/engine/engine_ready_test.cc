// SPDX-License-Identifier: MIT
// Readiness: the reason for a model without progress, and states that are none.
#include <chrono>

#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/predict_fixture.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kNeverIdle = hours(10000);

std::string WhyNot(const Engine& engine, size_t model = 0) {
  const ModelStats stats = engine.Stats().models.at(model);
  EXPECT_EQ(stats.ready, stats.unready.empty());
  return std::string(stats.unready);
}

// Reads its clock when it is asked, as probes do.
testing::AssertionResult Becomes(const Engine& engine, const std::string& why,
                                 size_t model = 0) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string now;
  while ((now = WhyNot(engine, model)) != why) {
    if (std::chrono::steady_clock::now() > end) {
      return testing::AssertionFailure() << "'" << now << "', not '" << why << "'";
    }
    std::this_thread::yield();
  }
  return testing::AssertionSuccess();
}

TEST(Ready, AStepThatHangsIsNoProgress) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = kNeverIdle});
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.MeasureSteps();
  server.decoder.Allow(0);
  Reader call(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.clock.Advance(seconds(10));
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.clock.Advance(milliseconds(1));
  EXPECT_EQ(WhyNot(*server.engine), "no progress");
  server.decoder.AllowAll();
  EXPECT_TRUE(call.Finish().status.ok());
  server.AwaitIdle();
  EXPECT_EQ(WhyNot(*server.engine), "");
}

TEST(Ready, AnIdleModelIsReadyHoweverLongNobodyAsked) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = kNeverIdle});
  server.MeasureSteps();
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.clock.Advance(hours(1));
  server.decoder.Allow(0);
  Reader call(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.clock.Advance(hours(1));
  server.decoder.Allow(1);
  server.decoder.AwaitHeld();
  EXPECT_EQ(WhyNot(*server.engine), "") << "steps were made meanwhile";
  server.decoder.AllowAll();
  EXPECT_TRUE(call.Finish().status.ok());
}

// Four times the longest step of late, once that is more than ten seconds.
TEST(Ready, LongStepsAreNoLackOfProgress) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = kNeverIdle});
  server.decoder.Allow(0);
  Reader call(*server.engine, Ask({1}, 10));
  server.decoder.AwaitHeld();
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.clock.Advance(seconds(30));
  EXPECT_EQ(WhyNot(*server.engine), "") << "the first step may take a minute";
  for (int i = 0; i < 3; ++i) {
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();
    EXPECT_EQ(WhyNot(*server.engine), "");
    server.clock.Advance(seconds(30));
    EXPECT_EQ(WhyNot(*server.engine), "");
  }
  server.clock.Advance(seconds(91));
  EXPECT_EQ(WhyNot(*server.engine), "no progress");
  server.decoder.AllowAll();
  EXPECT_TRUE(call.Finish().status.ok());
}

// A prediction in pieces of four seconds has the turn, a decoder waits for its own.
TEST(Ready, TheTurnOfAnotherModelIsNoLackOfProgress) {
  ToyDecoder decoder(ToyState::kFixed);
  Encoder encoder({.idle_timeout = kNeverIdle}, 4, &decoder);
  decoder.Allow(0);
  GenerateRequest request = Ask({1}, 3);
  request.model = "decoder";
  Answer answer;
  encoder.predictor.Close();
  ASSERT_TRUE(encoder.Start(answer, {1, 2}).ok());
  ASSERT_TRUE(encoder.predictor.AwaitHeld());
  Reader call(*encoder.engine, request);
  EXPECT_TRUE(Becomes(*encoder.engine, "", 1));
  encoder.clock.Advance(seconds(9));
  EXPECT_EQ(WhyNot(*encoder.engine, 0), "");
  EXPECT_EQ(WhyNot(*encoder.engine, 1), "");
  encoder.clock.Advance(seconds(60));
  EXPECT_EQ(WhyNot(*encoder.engine, 0), "no progress");
  // Its turn does not come. It may have begun to wait only now.
  ASSERT_TRUE(Eventually([&] {
    if (WhyNot(*encoder.engine, 1) == "no progress") return true;
    encoder.clock.Advance(seconds(60));
    return false;
  }));
  encoder.predictor.Open();
  decoder.AllowAll();
  EXPECT_TRUE(answer.Await().ok());
  EXPECT_TRUE(call.Finish().status.ok());
  EXPECT_TRUE(Becomes(*encoder.engine, "", 0));
  EXPECT_TRUE(Becomes(*encoder.engine, "", 1));
}

TEST(Ready, PiecesAreProgress) {
  Encoder encoder({}, 3);
  ASSERT_TRUE(encoder.Run({1}).ok());
  encoder.predictor.Close();
  Answer answer;
  ASSERT_TRUE(encoder.Start(answer, {1, 2}).ok());
  ASSERT_TRUE(encoder.predictor.AwaitHeld());
  EXPECT_EQ(WhyNot(*encoder.engine), "");
  encoder.clock.Advance(seconds(61));
  EXPECT_EQ(WhyNot(*encoder.engine), "no progress");
  encoder.predictor.Open();
  EXPECT_TRUE(answer.Await().ok());
  EXPECT_TRUE(Becomes(*encoder.engine, ""));
}

// One call has nearly all blocks and goes on, another one waits for some.
TEST(Ready, CallsThatWaitForStateMakeItFull) {
  // Two blocks.
  constexpr int64_t kBlock = 16;
  ToyDecoder decoder(ToyState::kAppend);
  const int64_t block_bytes =
      kBlock * static_cast<int64_t>(sizeof(float)) * decoder.spec().row_elements();
  ToyServer server(ToyState::kAppend,
                   {.idle_timeout = kNeverIdle, .state_bytes = 4 * block_bytes},
                   4 * kBlock);
  server.decoder.Allow(0);
  Reader runs(*server.engine, Ask(Tokens(3 * kBlock, 1), 12));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask(Tokens(2 * kBlock, 2), 2));
  server.decoder.Allow(1);
  server.decoder.AwaitHeld();
  EXPECT_EQ(WhyNot(*server.engine), "");
  for (int step = 0; step < 3; ++step) {
    server.clock.Advance(seconds(4));
    EXPECT_NE(WhyNot(*server.engine), "no progress");
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();
  }
  EXPECT_EQ(WhyNot(*server.engine), "state full");
  server.decoder.AllowAll();
  EXPECT_TRUE(runs.Finish().status.ok());
  EXPECT_TRUE(waits.Finish().status.ok());
  EXPECT_TRUE(Becomes(*server.engine, ""));
}

// Its transport should have cancelled it.
TEST(Ready, ACallThatOutlivesItsDeadlineIsStuck) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = kNeverIdle});
  server.MeasureSteps();
  GenerateRequest request = Ask({1}, 500);
  request.deadline = server.clock.Now() + hours(1);
  Reader call(*server.engine, request);
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  server.clock.Advance(hours(1) + seconds(10));
  // A pass of the step loop that the jump of the clock fell into has to end first.
  EXPECT_TRUE(Becomes(*server.engine, ""));
  server.clock.Advance(milliseconds(1));
  EXPECT_EQ(WhyNot(*server.engine), "stuck call");
  call.stream().Cancel();
  call.Finish();
  EXPECT_TRUE(Becomes(*server.engine, ""));
}

TEST(Ready, ADrainIsTheFirstReason) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = kNeverIdle});
  server.MeasureSteps();
  server.decoder.Allow(0);
  Reader call(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  EXPECT_EQ(WhyNot(*server.engine), "");
  server.clock.Advance(seconds(11));
  server.engine->Drain();
  EXPECT_EQ(WhyNot(*server.engine), "draining");
}

// A call on a session has computed all, and nobody reads the last of it.
TEST(Stalled, CallsThatDeliverCountWhileNobodyReads) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = seconds(30)});
  server.CreateSession("s");
  Reader call(*server.engine, Ask({1}, 40, "s"));
  server.AwaitIdle();
  const auto stalled = [&] { return server.engine->Stats().models[0].stalled; };
  EXPECT_EQ(stalled(), 0);
  server.clock.Advance(milliseconds(999));
  server.Run(Ask({2}, 1));  // a round, and the end of one that is read
  EXPECT_EQ(stalled(), 0);
  server.clock.Advance(milliseconds(1));
  while (stalled() == 0) std::this_thread::yield();
  EXPECT_EQ(stalled(), 1);
  EXPECT_EQ(server.engine->Stats().running, 0) << "it lends no permit";
  EXPECT_EQ(call.Finish().tokens.size(), 40u);
  while (stalled() != 0) std::this_thread::yield();

  Reader idle(*server.engine, Ask({}, 40, "s"));
  server.AwaitIdle();
  server.clock.Advance(seconds(1));
  while (stalled() == 0) std::this_thread::yield();
  server.clock.Advance(seconds(30));
  while (stalled() != 0) std::this_thread::yield();
  EXPECT_EQ(ReasonOf(idle.Finish().status), "CALLER_IDLE");
}

}  // namespace
}  // namespace mnemon
