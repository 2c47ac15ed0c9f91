// SPDX-License-Identifier: MIT
// Blocks and permits: who runs, who waits, who pauses, and what is left of a call that
// ends early.
#include <numeric>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kBlockBytes = 16 * 3 * 4;

ToyServer SmallPool(int64_t blocks, Engine::Options options = {}) {
  options.state_bytes = blocks * kBlockBytes;
  return ToyServer(ToyState::kAppend, options, 64);
}

std::vector<int32_t> Continuation(const std::vector<int32_t>& history, int64_t count) {
  return ToyContinuation(ToyState::kAppend, history, count, AskedSampling());
}

TEST(Admission, APromptThatNeverFitsIsRefusedBeforeItIsComputed) {
  ToyServer server(ToyState::kAppend, {.state_bytes = 8 * kBlockBytes}, 64);
  server.CreateSession("s");
  EXPECT_EQ(ReasonOf(server.Run(Ask(Tokens(65, 1), 1, "s")).status), "CONTEXT_LIMIT");
  EXPECT_EQ(server.engine->Stats().tokens_computed, 0);
}

// Two sessions share a pool that holds one of them at full length.
TEST(Admission, StatesAtRestMakeRoomAndAreComputedAgain) {
  ToyServer server = SmallPool(4);
  server.CreateSession("a");
  server.CreateSession("b");
  std::vector<int32_t> a, b;
  for (int turn = 0; turn < 4; ++turn) {
    for (auto [id, history] : {std::pair{"a", &a}, std::pair{"b", &b}}) {
      const auto prompt = Tokens(5, turn);
      const auto expected = Continuation(Joined(*history, prompt), 8);
      const Outcome outcome = server.Run(Ask(prompt, 8, id));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_EQ(outcome.tokens, expected);
      *history = Joined(Joined(*history, prompt), expected);
    }
  }
  server.AwaitIdle();
  EXPECT_LE(server.engine->Stats().state_bytes, 4 * kBlockBytes);
}

// Four growing streams of a pool that holds two and a half: they pause, one after the
// other makes room, and all go on to their ends.
TEST(Admission, WhenAllPauseOneMakesRoomAndAllGoOn) {
  for (const bool named : {false, true}) {
    ToyServer server = SmallPool(10);
    std::vector<std::unique_ptr<Reader>> readers;
    server.decoder.Allow(0);
    for (int i = 0; i < 4; ++i) {
      const std::string id = named ? StrCat("s", i) : "";
      if (named) server.CreateSession(id);
      server.clock.Advance(milliseconds(1));
      readers.push_back(std::make_unique<Reader>(*server.engine, Ask({i + 1}, 62, id)));
    }
    server.decoder.AllowAll();
    for (int i = 0; i < 4; ++i) {
      const Outcome outcome = readers[i]->Finish();
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_EQ(outcome.tokens, Continuation({i + 1}, 62));
      if (named) {
        EXPECT_EQ(server.Position(StrCat("s", i)), 63);
      }
    }
    EXPECT_GT(server.engine->Stats().models[0].preemptions, 0);
  }
}

// A call that is rolled back before its first token leaves its session as it was, also
// when it had lost its state.
TEST(Admission, APreemptedCallCanBeCancelled) {
  ToyServer server = SmallPool(4);
  for (const char* id : {"a", "b"}) server.CreateSession(id);
  server.decoder.Allow(0);
  Reader grows(*server.engine, Ask(Tokens(20, 1), 40, "a"));
  server.decoder.AwaitHeld();
  server.clock.Advance(milliseconds(1));
  Reader waits(*server.engine, Ask(Tokens(20, 2), 40, "b"));
  server.decoder.Allow(14 + server.ahead());
  server.decoder.AwaitHeld();
  while (server.engine->Stats().models[0].preemptions == 0) {
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();
  }
  waits.stream().Cancel();
  server.decoder.AllowAll();
  EXPECT_EQ(grows.Finish().tokens, Continuation(Tokens(20, 1), 40));
  ASSERT_TRUE(server.engine->WaitIdle(kPatience));
  const int64_t kept = server.Position("b");
  EXPECT_TRUE(kept == 0 || kept >= 20) << kept;
  const auto prompt = kept == 0 ? Tokens(20, 2) : std::vector<int32_t>{};
  const auto delivered = Continuation(Tokens(20, 2), 40);
  const int64_t had = kept == 0 ? 0 : kept - 20;
  const Outcome rest = server.Run(Ask(prompt, static_cast<int32_t>(40 - had), "b"));
  EXPECT_EQ(rest.tokens,
            std::vector<int32_t>(delivered.begin() + had, delivered.end()));
}

TEST(Admission, APromptWaitsForBlocksThatARunningCallGivesBack) {
  ToyServer server = SmallPool(4);
  server.decoder.Allow(0);
  Reader first(*server.engine, Ask(Tokens(40, 1), 5));
  server.decoder.AwaitHeld();
  Reader second(*server.engine, Ask(Tokens(40, 2), 5));
  server.decoder.AllowAll();
  EXPECT_EQ(first.Finish().tokens, Continuation(Tokens(40, 1), 5));
  EXPECT_EQ(second.Finish().tokens, Continuation(Tokens(40, 2), 5));
}

// Two calls hold three of six blocks each. One ends when the other one needs a fourth;
// a new call, which needs three, waits until that one has ended too.
TEST(Admission, APausedCallGetsBlocksBeforeANewOne) {
  ToyServer server = SmallPool(6);
  server.decoder.Allow(0);
  Reader grows(*server.engine, Ask(Tokens(33, 1), 20));  // 16 tokens fit
  server.decoder.AwaitHeld();
  Reader ends(*server.engine, Ask(Tokens(33, 2), 16));
  Reader starts(*server.engine, Ask(Tokens(33, 3), 8));
  // It joins in the next step that is not submitted and ends 16 steps later; four
  // tokens of the first one are left.
  server.decoder.Allow(21 + server.ahead());
  EXPECT_EQ(ends.Finish().tokens, Continuation(Tokens(33, 2), 16));
  EXPECT_EQ(grows.Finish().tokens, Continuation(Tokens(33, 1), 20));
  EXPECT_EQ(starts.stream().delivered(), 0);
  server.decoder.AllowAll();
  EXPECT_EQ(starts.Finish().tokens, Continuation(Tokens(33, 3), 8));
}

TEST(Admission, BlocksOfACallThatHasComputedAllAreThereForTheNext) {
  ToyServer server = SmallPool(4);
  server.CreateSession("s");
  Reader unread(*server.engine, Ask(Tokens(50, 1), 4, "s"));
  server.AwaitIdle();
  EXPECT_EQ(server.Run(Ask(Tokens(40, 2), 5)).tokens, Continuation(Tokens(40, 2), 5));
  EXPECT_EQ(unread.Finish().tokens, Continuation(Tokens(50, 1), 4));
  const auto history = Joined(Tokens(50, 1), unread.so_far().tokens);
  EXPECT_EQ(server.Run(Ask({}, 5, "s")).tokens, Continuation(history, 5));
}

// Two calls have permits and wait for the blocks of a third one, which goes on.
TEST(Admission, ACancelledCallNeedNotWaitForBlocks) {
  ToyServer server(ToyState::kAppend, {.state_bytes = 8 * kBlockBytes}, 128);
  server.CreateSession("s");
  server.decoder.Allow(0);
  Reader holds(*server.engine, Ask(Tokens(70, 1), 50));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask(Tokens(80, 2), 3));
  Reader behind(*server.engine, Ask({2}, 3, "s"));
  server.decoder.Allow(1);
  server.decoder.AwaitHeld();
  EXPECT_EQ(server.engine->Stats().running, 3);
  behind.stream().Cancel();
  server.decoder.Allow(1 + server.ahead());
  EXPECT_TRUE(absl::IsCancelled(behind.Finish().status));
  EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
  EXPECT_EQ(server.engine->Stats().running, 2);
  EXPECT_EQ(waits.stream().space(), TokenStream::kCapacity);
  server.decoder.AllowAll();
  EXPECT_EQ(holds.Finish().tokens, Continuation(Tokens(70, 1), 50));
  EXPECT_EQ(waits.Finish().tokens, Continuation(Tokens(80, 2), 3));
}

// Its state rests, and rests once.
TEST(Admission, ACallThatIsCancelledAtOnceLeavesItsSessionAtRest) {
  ToyServer server = SmallPool(4);
  server.CreateSession("a");
  server.CreateSession("b");
  const auto first = server.Run(Ask(Tokens(20, 1), 5, "a")).tokens;
  server.decoder.Allow(0);
  Reader held(*server.engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  Reader(*server.engine, Ask({2}, 5, "a")).stream().Cancel();
  server.decoder.AllowAll();
  held.Finish();
  server.AwaitIdle();
  // Takes the state of "a" away, once.
  EXPECT_TRUE(server.Run(Ask(Tokens(60, 2), 2, "b")).status.ok());
  EXPECT_EQ(server.Run(Ask({}, 5, "a")).tokens,
            Continuation(Joined(Tokens(20, 1), first), 5));
}

// The same request again and again under a pool that cannot take it: nothing of it is
// ever left behind.
TEST(Admission, ARepeatedCallStoresItsPromptOnce) {
  ToyServer server = SmallPool(4);
  server.CreateSession("s");
  const auto first = server.Run(Ask(Tokens(10, 3), 10, "s")).tokens;
  const auto history = Joined(Tokens(10, 3), first);
  for (int attempt = 0; attempt < 5; ++attempt) {
    const absl::Status status =
        server.Run(Ask({1, 2, ToyDecoder::kOutOfMemory}, 5, "s")).status;
    EXPECT_EQ(ReasonOf(status), "OUT_OF_MEMORY");
    EXPECT_EQ(server.Position("s"), 20);
  }
  EXPECT_EQ(server.Run(Ask({}, 10, "s")).tokens, Continuation(history, 10));
}

TEST(Permits, CallsBeyondThemWaitInOrder) {
  ToyServer server(ToyState::kRing, {.sessions = 8, .running = 2});
  server.CreateSession("s");
  server.decoder.Allow(0);
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 5; ++i) {
    server.clock.Advance(milliseconds(1));
    readers.push_back(
        std::make_unique<Reader>(*server.engine, Ask({i}, 10, i == 3 ? "s" : "")));
  }
  EXPECT_EQ(server.engine->Stats().running, 2);
  EXPECT_EQ(server.engine->Stats().queued, 3);
  EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kQueued);
  server.decoder.AllowAll();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(readers[i]->Finish().tokens,
              ToyContinuation(ToyState::kRing, {i}, 10, AskedSampling()));
  }
  EXPECT_LE(server.decoder.largest_step(), 2u);
}

TEST(Permits, ADeletedSessionsWaitingCallEnds) {
  ToyServer server(ToyState::kRing, {.sessions = 4, .running = 1});
  server.CreateSession("s");
  server.decoder.Allow(0);
  Reader first(*server.engine, Ask({1}, 3));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask({2}, 3, "s"));
  ASSERT_TRUE(server.engine->DeleteSession("s").ok());
  server.decoder.AllowAll();
  EXPECT_TRUE(first.Finish().status.ok());
  EXPECT_EQ(ReasonOf(waits.Finish().status), "SESSION_DELETED");
}

TEST(Permits, AReaderThatStopsLendsItsPermit) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 2});
  std::vector<std::unique_ptr<Reader>> stopped;
  for (int i = 0; i < 2; ++i) {
    stopped.push_back(std::make_unique<Reader>(*server.engine, Ask({i}, 200)));
  }
  for (auto& reader : stopped) {
    while (reader->stream().space() > 0) std::this_thread::yield();
  }
  EXPECT_EQ(server.Run(Ask({7}, 100)).tokens,
            ToyContinuation(ToyState::kFixed, {7}, 100, AskedSampling()));
  EXPECT_EQ(server.engine->Stats().models[0].stalled, 2);
  // They go on where they were.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(stopped[i]->Finish().tokens,
              ToyContinuation(ToyState::kFixed, {i}, 200, AskedSampling()));
  }
}

// Rounds pass over stalled calls; what they hold is counted as if they did not.
TEST(Permits, StalledCallsCountAsRunning) {
  ToyServer server(ToyState::kFixedAndAppend, {.sessions = 8});
  std::vector<std::unique_ptr<Reader>> stopped;
  for (const char* id : {"a", "b", ""}) {
    if (*id != 0) server.CreateSession(id);
    stopped.push_back(std::make_unique<Reader>(*server.engine, Ask({1}, 300, id)));
  }
  const auto stats = [&] { return server.engine->Stats().models[0]; };
  while (stats().stalled < 3) std::this_thread::yield();
  // Rounds of another call, and what it leaves at rest.
  server.CreateSession("rests");
  EXPECT_EQ(server.Run(Ask({7}, 50, "rests")).tokens,
            ToyContinuation(ToyState::kFixedAndAppend, {7}, 50, AskedSampling()));
  while (stats().sessions_resting < 1) std::this_thread::yield();
  EXPECT_EQ(stats().stalled, 3);
  EXPECT_EQ(stats().running, 3);
  EXPECT_EQ(stats().sessions_running, 2);
  EXPECT_EQ(stats().sessions_queued, 0);
  const int64_t resting = server.engine->GetSession("rests")->state_size_bytes;
  EXPECT_GT(resting, 0);
  EXPECT_EQ(stats().running_state_bytes, stats().state_bytes - resting);
  EXPECT_GT(stats().running_state_bytes,
            server.engine->GetSession("a")->state_size_bytes * 2);
  for (auto& reader : stopped) {
    EXPECT_EQ(reader->Finish().tokens,
              ToyContinuation(ToyState::kFixedAndAppend, {1}, 300, AskedSampling()));
  }
}

// What is refused after its prompt was staged leaves no token behind, for no next call.
TEST(Queue, ARefusedPromptIsNotAppendedLater) {
  ToyServer server(ToyState::kFixedAndAppend, {.running = 1, .max_queue = 1});
  for (const char* id : {"runs", "waits", "s"}) server.CreateSession(id);
  server.decoder.Allow(0);
  Reader runs(*server.engine, Ask({1}, 5, "runs"));
  server.decoder.AwaitHeld();
  Reader waits(*server.engine, Ask({2}, 5, "waits"));
  EXPECT_EQ(ReasonOf(Reader(*server.engine, Ask({3, 4, 5}, 5, "s")).status()),
            "QUEUE_FULL");
  waits.stream().Cancel();  // its prompt was staged as well
  server.decoder.AllowAll();
  EXPECT_TRUE(runs.Finish().status.ok());
  for (const char* id : {"waits", "s"}) {
    EXPECT_EQ(server.Position(id), 0);
    const auto expected =
        ToyContinuation(ToyState::kFixedAndAppend, {7}, 5, AskedSampling());
    EXPECT_EQ(server.Run(Ask({7}, 5, id)).tokens, expected);
    EXPECT_EQ(server.Run(Ask({}, 5, id)).tokens,
              ToyContinuation(ToyState::kFixedAndAppend, Joined({7}, expected), 5,
                              AskedSampling()));
  }
}

TEST(Queue, IsBoundedByBytes) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 1, .queue_bytes = 400});
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  Reader fits(*server.engine, Ask(Tokens(60, 1), 1));
  EXPECT_TRUE(fits.status().ok());
  EXPECT_EQ(ReasonOf(Reader(*server.engine, Ask(Tokens(60, 1), 1)).status()),
            "QUEUE_FULL");
  EXPECT_TRUE(Reader(*server.engine, Ask(Tokens(20, 1), 1)).status().ok());
  server.decoder.AllowAll();
  EXPECT_TRUE(fits.Finish().status.ok());
}

TEST(Queue, CountsPartsOfCallsThatScore) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 1, .queue_bytes = 400});
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  const auto scoring = server.engine->Score({}, [] {});
  ASSERT_TRUE(scoring.ok());
  EXPECT_TRUE(scoring->append(Tokens(60, 1)).ok());
  EXPECT_EQ(ReasonOf(scoring->append(Tokens(60, 1)).status()), "QUEUE_FULL");
  EXPECT_EQ(ReasonOf(Reader(*server.engine, Ask(Tokens(60, 1), 1)).status()),
            "QUEUE_FULL");
  server.decoder.AllowAll();
  scoring->stream->Cancel();
}

// A clock that moves 10 ms with every step makes the load known exactly.
TEST(Queue, ACallThatCannotMeetItsDeadlineIsRefusedAtOnce) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 1});
  server.MeasureSteps();
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 40));
  server.decoder.AwaitHeld();
  // 400 ms of its own after up to 400 ms of the other.
  GenerateRequest request = Ask({2}, 40);
  request.deadline = server.clock.Now() + milliseconds(300);
  const absl::Status late = Reader(*server.engine, request).status();
  EXPECT_EQ(ReasonOf(late), "DEADLINE_UNREACHABLE");
  EXPECT_GT(*GetErrorDetail(late)->retry_after, milliseconds(100));
  EXPECT_LT(*GetErrorDetail(late)->retry_after, milliseconds(1000));
  request.deadline = server.clock.Now() + seconds(2);
  Reader in_time(*server.engine, request);
  EXPECT_TRUE(in_time.status().ok()) << in_time.status();
  server.decoder.AllowAll();
  EXPECT_TRUE(in_time.Finish().status.ok());
}

// It was in time when it came; then steps take longer, and it does not wait for its
// turn.
TEST(Queue, ACallThatHasBecomeTooLateIsRefusedBeforeItsTurn) {
  ToyServer server(ToyState::kFixed, {.sessions = 8, .running = 1});
  server.MeasureSteps();
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 40));
  server.decoder.AwaitHeld();
  GenerateRequest request = Ask({2}, 40);
  request.deadline = server.clock.Now() + seconds(2);
  Reader late(*server.engine, request);
  ASSERT_TRUE(late.status().ok()) << late.status();
  Reader patient(*server.engine, Ask({3}, 40));
  for (int i = 0; i < 5; ++i) {
    server.clock.Advance(milliseconds(200));
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();
  }
  EXPECT_EQ(ReasonOf(late.Finish().status), "DEADLINE_UNREACHABLE");
  EXPECT_EQ(server.engine->Stats().running, 1);
  EXPECT_EQ(server.engine->Stats().models[0].waiting, 1);
  server.decoder.AllowAll();
  EXPECT_TRUE(running.Finish().status.ok());
  EXPECT_TRUE(patient.Finish().status.ok());
}

// Its deadline is checked once, when it gets its permit: beside four other prompts its
// own takes 12.5 steps, beside five it would take 15.
TEST(Queue, ACallThatWasAdmittedIsNotCheckedAgain) {
  ToyServer server(ToyState::kFixed, {.sessions = 8});
  server.MeasureSteps();
  server.decoder.Allow(0);
  std::vector<std::unique_ptr<Reader>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::make_unique<Reader>(*server.engine, Ask(Tokens(2000, 1), 1)));
    server.decoder.AwaitHeld();
  }
  server.clock.Advance(milliseconds(10));
  server.decoder.Allow(1);
  server.decoder.AwaitHeld();
  GenerateRequest request = Ask(Tokens(640, 2), 1);
  request.deadline = server.clock.Now() + milliseconds(158);
  Reader in_time(*server.engine, request);
  EXPECT_TRUE(in_time.status().ok()) << in_time.status();
  server.clock.Advance(milliseconds(10));
  server.decoder.AllowAll();
  const absl::Status status = in_time.Finish().status;
  EXPECT_TRUE(status.ok()) << status;
}

TEST(IdleTimeout, EndsStreamsThatNobodyReads) {
  for (const bool named : {false, true}) {
    ToyServer server(ToyState::kFixedAndAppend,
                     {.sessions = 2, .idle_timeout = milliseconds(500)});
    if (named) server.CreateSession("s");
    server.decoder.Allow(1);
    Reader reader(*server.engine, Ask({1}, 200, named ? "s" : ""));
    reader.Next();
    server.decoder.AllowAll();
    while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
    server.clock.Advance(milliseconds(500));
    while (!reader.stream().cancelled()) std::this_thread::yield();
    const auto delivered = reader.stream().delivered();
    const Outcome outcome = reader.Finish();
    EXPECT_EQ(ReasonOf(outcome.status), "CALLER_IDLE");
    EXPECT_EQ(static_cast<int64_t>(outcome.tokens.size()), delivered);
    server.AwaitIdle();
    if (!named) continue;
    EXPECT_EQ(server.Position("s"), 1 + delivered);
    EXPECT_EQ(server.Run(Ask({}, 10, "s")).tokens,
              ToyContinuation(ToyState::kFixedAndAppend, Joined({1}, outcome.tokens),
                              10, AskedSampling()));
  }
}

TEST(IdleTimeout, IsOfTheTimeOfItsOwnClock) {
  FakeClock idle;
  ToyServer server(
      ToyState::kFixed,
      {.sessions = 2, .idle_timeout = milliseconds(500), .idle_clock = &idle});
  server.CreateSession("s");
  Reader delivering(*server.engine, Ask({1}, 20, "s"));
  server.AwaitIdle();  // all is computed, nothing is read
  auto scoring = server.engine->Score({}, [] {});
  ASSERT_TRUE(scoring.ok());
  Reader reader(*server.engine, Ask({1}, 200));
  while (server.engine->Stats().models[0].stalled < 2) std::this_thread::yield();
  // The process did not run.
  server.clock.Advance(std::chrono::hours(1));
  EXPECT_TRUE(server.Run(Ask({2}, 5)).status.ok());
  EXPECT_FALSE(reader.stream().cancelled());
  EXPECT_FALSE(scoring->stream->Take().finished);
  EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kRunning);
  idle.Advance(milliseconds(500));
  EXPECT_TRUE(server.Run(Ask({2}, 5)).status.ok());
  EXPECT_EQ(ReasonOf(reader.Finish().status), "CALLER_IDLE");
  server.AwaitIdle();
  EXPECT_EQ(ReasonOf(scoring->stream->Take().status), "CALLER_IDLE");
  while (server.engine->GetSession("s")->state != SessionState::kIdle) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ReasonOf(delivering.Finish().status), "CALLER_IDLE");
}

TEST(IdleTimeout, FreesASessionWhoseLastTokensNobodyTakes) {
  ToyServer server(ToyState::kFixed, {.idle_timeout = milliseconds(500)});
  server.CreateSession("s");
  Reader reader(*server.engine, Ask({1}, 20, "s"));
  server.AwaitIdle();
  server.clock.Advance(milliseconds(500));
  while (server.engine->GetSession("s")->state != SessionState::kIdle) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server.Position("s"), 0);
  EXPECT_EQ(ReasonOf(reader.Finish().status), "CALLER_IDLE");
  EXPECT_TRUE(server.Run(Ask({1}, 20, "s")).status.ok());
}

TEST(IdleTimeout, EndsScoringThatSendsNothing) {
  ToyServer server(ToyState::kFixed, {.running = 1, .idle_timeout = milliseconds(500)});
  auto call = server.engine->Score({}, [] {});
  ASSERT_TRUE(call.ok());
  Reader waits(*server.engine, Ask({1}, 5));
  while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
  server.clock.Advance(milliseconds(400));
  EXPECT_TRUE(call->append(std::vector<int32_t>()).ok());  // as good as nothing
  server.clock.Advance(milliseconds(100));
  EXPECT_TRUE(waits.Finish().status.ok());
  server.AwaitIdle();
  EXPECT_EQ(ReasonOf(call->stream->Take().status), "CALLER_IDLE");
}

TEST(IdleTimeout, OfScoringBeginsInTheQueue) {
  ToyServer server(ToyState::kFixed,
                   {.sessions = 4, .running = 1, .idle_timeout = milliseconds(500)});
  server.decoder.Allow(0);
  Reader running(*server.engine, Ask({1}, 1));
  server.decoder.AwaitHeld();
  auto idle = server.engine->Score({}, [] {});
  ASSERT_TRUE(idle.ok());
  Reader waits(*server.engine, Ask({2}, 1));
  server.clock.Advance(milliseconds(500));
  server.decoder.AllowAll();
  EXPECT_TRUE(waits.Finish().status.ok());
  server.AwaitIdle();
  EXPECT_EQ(ReasonOf(idle->stream->Take().status), "CALLER_IDLE");
}

TEST(Ttl, DefaultAndGreatest) {
  ToyServer server(ToyState::kFixed,
                   {.session_ttl = seconds(10), .max_session_ttl = seconds(60)});
  Engine& engine = *server.engine;
  const auto left = [&](std::optional<milliseconds> ttl) {
    const auto made = engine.CreateSession({.settings = {.ttl = ttl}});
    EXPECT_TRUE(made.ok()) << made.status();
    return std::chrono::duration_cast<seconds>(*made->expire_time -
                                               server.clock.WallNow());
  };
  EXPECT_EQ(left(std::nullopt), seconds(10));
  EXPECT_EQ(left(seconds(5)), seconds(5));
  EXPECT_EQ(left(seconds(500)), seconds(60));
  ToyServer limited(ToyState::kFixed, {.max_session_ttl = seconds(60)});
  EXPECT_TRUE(limited.engine->CreateSession({})->expire_time);
}

}  // namespace
}  // namespace mnemon
