// SPDX-License-Identifier: MIT
// Calls that compete for sessions, blocks, permits and the queue.
#include <thread>

#include "base/strings.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kRoomBlockBytes = 16 * 3 * 4;

ToyServer SixBlocks(Engine::Options options = {}) {
  options.state_bytes = 6 * kRoomBlockBytes;
  return ToyServer(ToyState::kAppend, options, 96);
}

std::vector<int32_t> Continuation(ToyState state, const std::vector<int32_t>& history,
                                  int64_t count) {
  return ToyContinuation(state, history, count, AskedSampling());
}

TEST(Room, CallersInTurnAreNeverRefused) {
  ToyServer server(ToyState::kFixed, {.running = 1});
  const auto calls = [&] {
    for (int i = 0; i < 300; ++i) {
      const Outcome outcome = server.Run(Ask({1}, 1));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    }
  };
  std::thread other(calls);
  calls();
  other.join();
}

// Fixed entries alone, three states at most: those of sessions at rest go, the longest
// unused first.
TEST(Room, FixedStatesStayWithinTheirBytes) {
  const int64_t each = ToyDecoder(ToyState::kFixed).spec().bytes_at(0);
  ToyServer server(ToyState::kFixed, {.running = 2, .state_bytes = 3 * each});
  EXPECT_EQ(server.engine->Stats().models[0].state_capacity_bytes, 3 * each);
  std::vector<std::vector<int32_t>> histories(8);
  for (int i = 0; i < 8; ++i) server.CreateSession(StrCat("s", i));
  for (const int begin : {0, 4, 0}) {
    for (int i = begin; i < begin + 4; i += 2) {
      Reader first(*server.engine, Ask({i, 1}, 20, StrCat("s", i)));
      Reader second(*server.engine, Ask({i + 1, 1}, 20, StrCat("s", i + 1)));
      for (const int k : {i, i + 1}) {
        const Outcome outcome = (k == i ? first : second).Finish();
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        auto& history = histories[static_cast<size_t>(k)];
        history = Joined(history, {k, 1});
        EXPECT_EQ(outcome.tokens, Continuation(ToyState::kFixed, history, 20)) << k;
        history = Joined(history, outcome.tokens);
        EXPECT_LE(server.engine->Stats().state_bytes, 3 * each);
      }
    }
  }
  server.AwaitIdle();
  const auto state = [&](int i) {
    return server.engine->GetSession(StrCat("s", i))->state_size_bytes;
  };
  EXPECT_EQ(state(3), each);
  // It was offloaded from the device to host memory.
  EXPECT_EQ(state(4), server.served ? each : 0);
  EXPECT_EQ(server.engine->Stats().state_bytes, 3 * each);
}

// No more calls run at once than states fit.
TEST(Room, CallsWaitUntilTheirStatesFit) {
  const int64_t each = ToyDecoder(ToyState::kFixed).spec().bytes_at(0);
  ToyServer server(ToyState::kFixed, {.running = 8, .state_bytes = 2 * each});
  server.decoder.Allow(0);
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 8; ++i) {
    readers.push_back(std::make_unique<Reader>(*server.engine, Ask({i}, 40)));
  }
  server.decoder.AwaitHeld();
  server.decoder.Allow(3);
  server.decoder.AwaitHeld();
  EXPECT_EQ(server.engine->Stats().state_bytes, 2 * each);
  server.decoder.AllowAll();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(readers[static_cast<size_t>(i)]->Finish().tokens,
              Continuation(ToyState::kFixed, {i}, 40));
  }
}

// Calls whose ends are not taken hold slots, but not those that others need.
TEST(Room, CallsThatDeliverGiveTheirSlotsUp) {
  for (const ToyState state : {ToyState::kFixed, ToyState::kRing, ToyState::kAppend}) {
    ToyServer server(state, {.running = 1});
    std::vector<std::unique_ptr<Reader>> readers;
    for (int i = 0; i < 12; ++i) {
      server.CreateSession(StrCat("s", i));
      readers.push_back(
          std::make_unique<Reader>(*server.engine, Ask({i, 1}, 40, StrCat("s", i))));
      server.AwaitIdle();
    }
    for (int i = 0; i < 12; ++i) {
      Reader& reader = *readers[static_cast<size_t>(i)];
      const std::string id = StrCat("s", i);
      std::vector<int32_t> history = {i, 1};
      if (i % 3 == 0) {
        EXPECT_EQ(reader.Finish().tokens, Continuation(state, history, 40));
      } else {
        // Either in the middle, or before the first token.
        if (i % 3 == 1) reader.stream().Take(7);
        reader.stream().Cancel();
        reader.Finish();
        while (server.engine->GetSession(id)->state != SessionState::kIdle) {
          std::this_thread::yield();
        }
      }
      const int64_t position = server.Position(id);
      EXPECT_EQ(position, i % 3 == 0 ? 42 : i % 3 == 1 ? 9 : 0);
      const auto all = Joined(history, Continuation(state, history, 40));
      history = Joined({all.begin(), all.begin() + position}, {5});
      EXPECT_EQ(server.Run(Ask({5}, 20, id)).tokens, Continuation(state, history, 20));
    }
  }
}

TEST(Room, TheTierOfASessionSaysWhereItsStateIs) {
  ToyServer server(ToyState::kFixedAndAppend);
  const auto tier = [&] { return server.engine->GetSession("s")->tier; };
  server.CreateSession("s");
  EXPECT_EQ(tier(), SessionTier::kHost);
  server.decoder.Allow(0);
  Reader call(*server.engine, Ask({1}, 5, "s"));
  server.decoder.AwaitHeld();
  EXPECT_EQ(tier(), SessionTier::kDevice);
  EXPECT_GT(server.engine->Stats().models[0].running_state_bytes, 0);
  server.decoder.AllowAll();
  EXPECT_TRUE(call.Finish().status.ok());
  server.AwaitIdle();
  const ModelStats now = server.engine->Stats().models[0];
  EXPECT_EQ(tier(), now.state_on_host ? SessionTier::kHost : SessionTier::kDevice);
  EXPECT_EQ(now.sessions, 1);
  EXPECT_EQ(now.sessions_resting, 1);
  EXPECT_EQ(now.running_state_bytes, 0);
  EXPECT_GT(now.state_bytes, 0);
}

TEST(Room, ASharedStateIsNotDroppedInVain) {
  ToyServer server = SixBlocks();
  for (const char* id : {"a", "b"}) {
    server.CreateSession(id);
    ASSERT_TRUE(server.Run(Ask(Tokens(38, 1), 3, id)).status.ok());
  }
  // The copy of its last block takes one of b's.
  Scorer scorer(*server.engine, {.session = "a"});
  EXPECT_TRUE(scorer.Append(Tokens(5, 2)).ok());
  EXPECT_TRUE(scorer.Finish().status.ok());
  const Outcome next = server.Run(Ask({7}, 1, "a"));
  EXPECT_EQ(next.start->resumed_tokens, 40);
}

// More states than a round drops.
TEST(Room, ManyStatesAtRestMakeRoomForALongPrompt) {
  constexpr int kSessions = 300;
  ToyServer server(
      ToyState::kAppend,
      {.sessions = 2 * kSessions, .state_bytes = kSessions * kRoomBlockBytes},
      16 * kSessions);
  for (int i = 0; i < kSessions; ++i) {
    const std::string id = StrCat("s", i);
    server.CreateSession(id);
    ASSERT_TRUE(server.Run(Ask({i % 30, 1}, 1, id)).status.ok());
  }
  const GenerateRequest large = Ask(Tokens(16 * (kSessions - 30), 1), 3);
  const Outcome found = server.Run(large);
  ASSERT_TRUE(found.status.ok()) << found.status;
  ToyServer empty(ToyState::kAppend, {}, 16 * kSessions);
  EXPECT_EQ(found.tokens, empty.Run(large).tokens);
  // The newest of them have kept their states.
  const Outcome newest = server.Run(Ask({1}, 1, StrCat("s", kSessions - 1)));
  EXPECT_GT(newest.start->resumed_tokens, 0);
}

TEST(Room, AStateOfAWaitingCallIsDroppedBeforeARunningCallEnds) {
  ToyServer server = SixBlocks();
  server.CreateSession("s");
  const Outcome first = server.Run(Ask(Tokens(38, 1), 3, "s"));
  server.decoder.Allow(0);
  Reader grows(*server.engine, Ask(Tokens(33, 2), 20));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask(Tokens(20, 3), 5, "s"));
  server.decoder.AllowAll();
  EXPECT_EQ(grows.Finish().tokens, Continuation(ToyState::kAppend, Tokens(33, 2), 20));
  const auto history = Joined(Joined(Tokens(38, 1), first.tokens), Tokens(20, 3));
  EXPECT_EQ(waits.Finish().tokens, Continuation(ToyState::kAppend, history, 5));
}

TEST(Room, ScoringOnACopyCostsWhatItComputes) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 2});
  server.CreateSession("s");
  ASSERT_TRUE(server.Run(Ask(Tokens(20000, 1), 1, "s")).status.ok());
  server.MeasureSteps();
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  Scorer scorer(*server.engine,
                {.session = "s", .deadline = server.clock.Now() + milliseconds(500)});
  EXPECT_TRUE(scorer.status().ok()) << scorer.status();
  server.decoder.AllowAll();
}

TEST(Room, ScoringOnACopyGoesOnWhenItsSessionDoes) {
  const ToyState state = ToyState::kFixedAndAppend;
  ToyServer server(state, {.running = 1});
  server.CreateSession("s");
  const auto history = Joined({4}, server.Run(Ask({4}, 30, "s")).tokens);
  server.decoder.Allow(0);
  Reader runs(*server.engine, Ask({1}, 3));
  server.decoder.AwaitHeld();
  Scorer scorer(*server.engine, {.session = "s"});  // waits
  ASSERT_TRUE(scorer.call().append(Tokens(5, 2)).ok());
  Reader goes_on(*server.engine, Ask({5}, 3, "s"));
  server.decoder.AllowAll();
  EXPECT_TRUE(goes_on.Finish().status.ok());
  EXPECT_TRUE(runs.Finish().status.ok());
  const Scores got = scorer.Finish();
  EXPECT_TRUE(got.status.ok()) << got.status;
  Scorer fresh(*server.engine, {});
  ASSERT_TRUE(fresh.Append(Joined(history, Tokens(5, 2))).ok());
  const auto all = fresh.Finish().tokens;
  EXPECT_EQ(got.tokens, (std::vector(all.end() - 5, all.end())));
}

TEST(Room, HistoriesCopiedForScoringCountInTheQueue) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 1, .queue_bytes = 400});
  server.CreateSession("s");
  ASSERT_TRUE(server.Run(Ask(Tokens(200, 1), 1, "s")).status.ok());
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  EXPECT_EQ(ReasonOf(Scorer(*server.engine, {.session = "s"}).status()), "QUEUE_FULL");
  server.decoder.AllowAll();
}

// Six blocks are the whole pool: no copy of the last one can be made.
TEST(Room, ScoringOnACopyOfAStateThatFillsThePool) {
  ToyServer server = SixBlocks();
  server.CreateSession("s");
  const auto history =
      Joined(Tokens(86, 1), server.Run(Ask(Tokens(86, 1), 3, "s")).tokens);
  Scorer scorer(*server.engine, {.session = "s"});
  ASSERT_TRUE(scorer.call().append(Tokens(5, 2)).ok());
  const Scores got = scorer.Finish();
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.tokens.size(), 5u);
  EXPECT_EQ(server.Run(Ask({}, 5, "s")).tokens,
            Continuation(ToyState::kAppend, history, 5));
}

// A call whose reader stops, then another one; both get what they would get alone.
void ExpectAStalledCallGivesWay(ToyServer& server, int32_t stopped_tokens,
                                int32_t other_tokens) {
  Reader stopped(*server.engine, Ask({1}, stopped_tokens));
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  const Outcome other = server.Run(Ask(Tokens(40, 2), other_tokens));
  EXPECT_TRUE(other.status.ok()) << other.status;
  EXPECT_EQ(other.tokens, Continuation(ToyState::kAppend, Tokens(40, 2), other_tokens));
  EXPECT_EQ(stopped.Finish().tokens,
            Continuation(ToyState::kAppend, {1}, stopped_tokens));
}

// It holds five blocks of eight; the other one needs more than three.
TEST(Room, AStalledCallLosesItsStateBeforeAnotherEnds) {
  ToyServer server(ToyState::kAppend, {.state_bytes = 8 * kRoomBlockBytes}, 128);
  ExpectAStalledCallGivesWay(server, 120, 30);
}

// It holds five blocks of six; the prompt of the other one needs three.
TEST(Room, AStalledCallLosesItsStateBeforeAnotherWaitsForIt) {
  ToyServer server = SixBlocks();
  ExpectAStalledCallGivesWay(server, 90, 5);
}

TEST(Room, AStalledScoreCallLosesItsStateBeforeAnotherEnds) {
  ToyServer server(ToyState::kAppend, {.state_bytes = 8 * kRoomBlockBytes}, 128);
  server.CreateSession("s");
  Scorer idle(*server.engine, {.session = "s", .commit = true});
  ASSERT_TRUE(idle.Append(Tokens(70, 1)).ok());
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  const Outcome other = server.Run(Ask(Tokens(40, 2), 30));
  EXPECT_TRUE(other.status.ok()) << other.status;
  ASSERT_TRUE(idle.Append(Tokens(20, 3)).ok());
  const Scores got = idle.Finish();
  Scorer fresh(*server.engine, {});
  ASSERT_TRUE(fresh.Append(Joined(Tokens(70, 1), Tokens(20, 3))).ok());
  EXPECT_EQ(got.tokens, fresh.Finish().tokens);
  EXPECT_EQ(server.Position("s"), 90);
}

// Permits are free, blocks are not: a call that waits for them waits in the queue's
// terms.
TEST(Room, WaitingForBlocksCountsInTheExpectedWait) {
  ToyServer server = SixBlocks({.sessions = 8});
  server.MeasureSteps();
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask(Tokens(64, 1), 30));
  server.decoder.AwaitHeld();
  Reader first(*server.engine, Ask(Tokens(64, 2), 30));
  server.decoder.Allow(1);
  server.decoder.AwaitHeld();  // it waits for blocks now
  GenerateRequest request = Ask(Tokens(64, 3), 30);
  // Alone it takes 310 ms, and there are 600 ms of the others before it.
  request.deadline = server.clock.Now() + milliseconds(800);
  const absl::Status late = Reader(*server.engine, request).status();
  EXPECT_EQ(ReasonOf(late), "DEADLINE_UNREACHABLE");
  EXPECT_GT(GetErrorDetail(late)->retry_after, milliseconds(400));
  request.deadline = server.clock.Now() + milliseconds(3000);
  Reader in_time(*server.engine, request);
  EXPECT_TRUE(in_time.status().ok()) << in_time.status();
  EXPECT_EQ(server.engine->Stats().queued, 1);
  server.decoder.AllowAll();
  EXPECT_TRUE(first.Finish().status.ok());
  EXPECT_TRUE(in_time.Finish().status.ok());
}

// It has a permit, and its blocks come too late.
TEST(Room, ACallThatWaitsTooLongForBlocksDoesNotStart) {
  ToyServer server = SixBlocks({.sessions = 8});
  server.MeasureSteps();
  server.CreateSession("s");
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask(Tokens(64, 1), 30));
  server.decoder.AwaitHeld();
  GenerateRequest request = Ask(Tokens(64, 2), 30, "s");
  request.request_id = "00000000-0000-0000-0000-000000000001";
  request.deadline = server.clock.Now() + milliseconds(700);
  Reader late(*server.engine, request);
  ASSERT_TRUE(late.status().ok()) << late.status();
  server.decoder.Allow(1);
  server.decoder.AwaitHeld();  // it waits for blocks now
  server.clock.Advance(milliseconds(450));
  server.decoder.Allow(1);
  const absl::Status status = late.Finish().status;
  EXPECT_EQ(ReasonOf(status), "DEADLINE_UNREACHABLE");
  EXPECT_TRUE(GetErrorDetail(status)->retry_after);
  server.decoder.AllowAll();
  EXPECT_TRUE(running.Finish().status.ok());
  EXPECT_EQ(server.Position("s"), 0);
  request.deadline.reset();
  EXPECT_TRUE(server.Run(request).status.ok());
}

TEST(Room, TheQueueAndReadinessEndWithTheExpectedWait) {
  ToyServer server(ToyState::kFixed,
                   {.sessions = 8, .running = 1, .max_wait = milliseconds(500)});
  server.MeasureSteps();
  const auto ready = [&] { return server.engine->Stats().models[0].ready; };
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 40));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask({2}, 40));  // for up to 400 ms
  EXPECT_TRUE(waits.status().ok()) << waits.status();
  EXPECT_FALSE(ready());
  const absl::Status full = Reader(*server.engine, Ask({3}, 40)).status();
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
  EXPECT_GT(*GetErrorDetail(full)->retry_after, milliseconds(500));
  server.decoder.AllowAll();
  EXPECT_TRUE(waits.Finish().status.ok());
  EXPECT_TRUE(ready());
}

TEST(IdleTimeout, SparesAReaderWhoReadInTime) {
  ToyServer server(ToyState::kFixed,
                   {.sessions = 2, .idle_timeout = milliseconds(500)});
  Reader reader(*server.engine, Ask({1}, 100));
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  server.decoder.Allow(0);
  Reader other(*server.engine, Ask({2}, 5));
  server.decoder.AwaitHeld();
  server.clock.Advance(milliseconds(499));
  reader.Next();
  server.clock.Advance(milliseconds(2));
  server.decoder.AllowAll();
  EXPECT_TRUE(other.Finish().status.ok());
  EXPECT_EQ(reader.Finish().tokens, Continuation(ToyState::kFixed, {1}, 100));
}

TEST(IdleTimeout, TheSessionIsFreeBeforeTheEndIsSeen) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = milliseconds(2)});
  for (int round = 0; round < 100; ++round) {
    const std::string id = StrCat("s", round % 8);
    if (round < 8) server.CreateSession(id);
    Scorer idle(*server.engine, {.session = id, .commit = true});
    while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
    TokenChunk chunk;
    std::thread moves([&] { server.clock.Advance(milliseconds(2)); });
    while (!chunk.finished) chunk = idle.call().stream->Take();
    const Outcome next = server.Run(Ask({1}, 1, id));
    moves.join();
    EXPECT_EQ(ReasonOf(chunk.status), "CALLER_IDLE");
    ASSERT_TRUE(next.status.ok()) << next.status;
  }
}

}  // namespace
}  // namespace mnemon
