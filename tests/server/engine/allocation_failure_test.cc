// SPDX-License-Identifier: MIT
// Each allocation of the engine fails once, the first, the second and so on: calls end
// with an error or as asked, no session loses or gains a token, nothing leaks, and the
// next call works.
#include <thread>

#include "base/strings.h"
#include "model/text/tokenizer.h"
#include "server/sessions/sleeping_sessions.h"
#include "tests/fakes/failing_allocation.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/silent_observer.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/predict_fixture.h"

namespace mnemon {
namespace {

class FailingAllocations : public testing::TestWithParam<ToyState> {
 protected:
  FailingAllocations() { takes_part = false; }
  ~FailingAllocations() override {
    countdown = 0;
    takes_part = true;
  }

  static void ExpectOkOrOutOfMemory(const absl::Status& status) {
    if (!status.ok()) {
      EXPECT_EQ(ReasonOf(status), "OUT_OF_MEMORY") << status;
    }
  }

  std::vector<int32_t> Continuation(const std::vector<int32_t>& history,
                                    int64_t count) const {
    return ToyContinuation(GetParam(), history, count, AskedSampling());
  }

  // `history` becomes what it has to be after a call that asked for `prompt`.
  void ExpectPrefix(const Outcome& outcome, const std::vector<int32_t>& prompt,
                    int64_t count, std::vector<int32_t>& history) const {
    ExpectOkOrOutOfMemory(outcome.status);
    const auto expected = Continuation(Joined(history, prompt), count);
    ASSERT_LE(outcome.tokens.size(), expected.size());
    EXPECT_TRUE(
        std::equal(outcome.tokens.begin(), outcome.tokens.end(), expected.begin()));
    if (outcome.status.ok()) {
      EXPECT_EQ(outcome.tokens.size(), expected.size());
    }
    if (outcome.status.ok() || !outcome.tokens.empty()) {
      history = Joined(Joined(history, prompt), outcome.tokens);
    }
  }

  // All sessions have the histories that they have to have, and what they hold goes.
  void ExpectIntact(ToyServer& server, const std::vector<int32_t>& s) const {
    server.AwaitIdle();
    ASSERT_EQ(server.Position("s"), static_cast<int64_t>(s.size()));
    if (!s.empty()) {
      const Outcome next = server.Run(Ask({}, 5, "s"));
      ASSERT_TRUE(next.status.ok()) << next.status;
      ASSERT_EQ(next.tokens, Continuation(s, 5));
    }
    EXPECT_EQ(server.Run(Ask({9, 8}, 5)).tokens, Continuation({9, 8}, 5));
    ASSERT_TRUE(server.engine->DeleteSession("s").ok());
    server.AwaitIdle();
    const EngineStats stats = server.engine->Stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.sessions, 0);
    EXPECT_EQ(stats.state_bytes, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(States, FailingAllocations, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

TEST_P(FailingAllocations, OfTheEnginesThreads) {
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    ToyServer server(GetParam(), {.sessions = 4});
    server.CreateSession("s");
    std::vector<int32_t> s;
    ExpectPrefix(server.Run(Ask(Tokens(20, 1), 10, "s")), Tokens(20, 1), 10, s);
    server.AwaitIdle();
    countdown = n;
    const auto prompt = Tokens(30, 2), other = Tokens(70, 3);
    Reader call(*server.engine, Ask(prompt, 40, "s"));
    GenerateRequest with_logprobs = Ask(other, 40);
    with_logprobs.logprobs = {.wanted = true, .candidates = {.most_likely = 2}};
    Reader stateless(*server.engine, with_logprobs);
    const auto scored = server.engine->Score({}, [] {});
    ASSERT_TRUE(scored.ok()) << scored.status();
    ASSERT_TRUE(scored->append(other).ok());
    scored->close();
    const Outcome outcome = call.Finish();
    std::vector<int32_t> none;
    ExpectPrefix(stateless.Finish(), other, 40, none);
    TokenChunk chunk;
    while (!(chunk = scored->stream->Take()).finished) std::this_thread::yield();
    ExpectOkOrOutOfMemory(chunk.status);
    server.AwaitIdle();
    if (countdown.exchange(0) <= 0) failed = n;
    ExpectPrefix(outcome, prompt, 40, s);
    ExpectIntact(server, s);
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 20);
  RecordProperty("failed_allocations", std::to_string(failed));
}

TEST_P(FailingAllocations, OfTheCaller) {
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    ToyServer server(GetParam(), {.sessions = 4});
    server.CreateSession("s");
    std::vector<int32_t> s;
    const GenerateRequest request = Ask(Tokens(30, 2), 40, "s");
    const Prompt part = Tokens(70, 3);
    // Those that the engine's threads make meanwhile do not count: its steps wait.
    server.decoder.Allow(0);
    const auto fails = [&](const auto& work) {
      takes_part = true;
      countdown = n;
      auto result = work();
      takes_part = false;
      if (countdown.exchange(0) <= 0) failed = n;
      return result;
    };
    absl::StatusOr<std::shared_ptr<TokenStream>> stream =
        fails([&] { return server.engine->Generate(request, [] {}); });
    ExpectOkOrOutOfMemory(stream.status());
    auto scored = fails([&] { return server.engine->Score({}, [] {}); });
    ExpectOkOrOutOfMemory(scored.status());
    if (scored.ok()) {
      const auto appended = fails([&] { return scored->append(part).status(); });
      ExpectOkOrOutOfMemory(appended);
      scored->close();
    }
    ExpectOkOrOutOfMemory(
        fails([&] { return server.engine->CreateSession({.id = "t"}).status(); }));
    const absl::Status deleted =
        fails([&] { return server.engine->DeleteSession("t"); });
    if (ReasonOf(deleted) != "SESSION_NOT_FOUND") ExpectOkOrOutOfMemory(deleted);
    server.decoder.AllowAll();
    if (server.engine->GetSession("t").ok()) {
      EXPECT_FALSE(deleted.ok());
      EXPECT_TRUE(server.engine->DeleteSession("t").ok());
    }
    if (stream.ok()) {
      Outcome outcome;
      for (TokenChunk chunk; !chunk.finished;) {
        chunk = (*stream)->Take();
        outcome.tokens.insert(outcome.tokens.end(), chunk.tokens.begin(),
                              chunk.tokens.end());
        if (chunk.finished) outcome.status = chunk.status;
      }
      ExpectPrefix(outcome, Tokens(30, 2), 40, s);
    }
    while (scored.ok() && !scored->stream->Take().finished) std::this_thread::yield();
    ExpectIntact(server, s);
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 5);
  RecordProperty("failed_allocations", std::to_string(failed));
}

// What a caller whose call is not taken, or cancelled in the queue, leaves behind.
TEST_P(FailingAllocations, OfACallerWhoIsRefused) {
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    ToyServer server(GetParam(), {.sessions = 3, .running = 1}, 64);
    server.CreateSession("s");
    server.decoder.Allow(0);
    Reader running(*server.engine, Ask({1}, 5));
    server.decoder.AwaitHeld();
    Reader waits(*server.engine, Ask(Tokens(10, 1), 5, "s"));
    ASSERT_TRUE(waits.status().ok()) << waits.status();
    const auto fails = [&](const auto& work) {
      takes_part = true;
      countdown = n;
      work();
      takes_part = false;
      if (countdown.exchange(0) <= 0) failed = n;
    };
    CreateSessionRequest request;
    request.id = std::string(40, 't');
    request.request_id = "123e4567-e89b-12d3-a456-426614174000";
    absl::Status created;
    fails([&] { created = server.engine->CreateSession(request).status(); });
    ExpectOkOrOutOfMemory(created);
    // A repetition makes it, or finds it made.
    const auto again = server.engine->CreateSession(request);
    ASSERT_TRUE(again.ok()) << again.status();
    const GenerateRequest invalid = Ask({}, 5, request.id);
    fails([&] { (void)server.engine->Generate(invalid, [] {}); });
    fails([&] { waits.stream().Cancel(); });
    server.decoder.AllowAll();
    EXPECT_FALSE(waits.Finish().status.ok());
    EXPECT_TRUE(running.Finish().status.ok());
    EXPECT_EQ(server.Run(Ask({2}, 5, request.id)).tokens, Continuation({2}, 5));
    ASSERT_TRUE(server.engine->DeleteSession(request.id).ok());
    ExpectIntact(server, {});
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 5);
}

// Sessions that the caller finds expired: those that are removed are dropped by the
// runner too, the others go later.
TEST_P(FailingAllocations, OfACallerWhoRemovesExpiredSessions) {
  const std::chrono::milliseconds ttl(1000);
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    ToyServer server(GetParam(), {.sessions = 8});
    for (int i = 0; i < 5; ++i) {
      const std::string id(40, static_cast<char>('a' + i));
      ASSERT_TRUE(
          server.engine->CreateSession({.id = id, .settings = {.ttl = ttl}}).ok());
      ASSERT_TRUE(server.Run(Ask(Tokens(20, i), 5, id)).status.ok());
    }
    server.AwaitIdle();
    server.clock.Advance(2 * ttl);
    takes_part = true;
    countdown = n;
    (void)server.engine->GetSession("absent");
    takes_part = false;
    if (countdown.exchange(0) <= 0) failed = n;
    EXPECT_FALSE(server.engine->GetSession("absent").ok());
    EXPECT_EQ(server.engine->Stats().sessions, 0);
    server.AwaitNoState();
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 2);
}

// Calls that end with a result that takes memory, for their callers and an observer.
TEST_P(FailingAllocations, OfEndsByStopStrings) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  const std::vector<int32_t> all = Continuation({1}, 40);
  std::string stop;
  for (int i = 10; i < 30; ++i) stop += tokenizer->TokenBytes(all[i]);
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    ToyServer server(GetParam(),
                     {.sessions = 4, .observer = std::make_shared<SilentObserver>()},
                     1024, tokenizer.get());
    server.CreateSession("s");
    server.decoder.Allow(0);
    countdown = n;
    GenerateRequest request = Ask({1}, 40);
    request.stop_strings = {stop};
    Reader stateless(*server.engine, request);
    request.session = "s";
    Reader call(*server.engine, request);
    server.decoder.AllowAll();
    std::vector<int32_t> s;
    for (Reader* reader : {&stateless, &call}) {
      const Outcome outcome = reader->Finish();
      ExpectOkOrOutOfMemory(outcome.status);
      if (outcome.status.ok()) {
        EXPECT_EQ(outcome.finish->stop_string, stop);
      }
      if (reader == &call && !outcome.tokens.empty()) s = Joined({1}, outcome.tokens);
    }
    server.AwaitIdle();
    if (countdown.exchange(0) <= 0) failed = n;
    ExpectIntact(server, s);
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 10);
}

// A consumer that cannot build the text of the last chunk has taken it all the same.
thread_local bool consumes = false;
TEST_P(FailingAllocations, OfTheConsumer) {
  may_fail = [](void*) { return consumes; };
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    ToyServer server(GetParam(), {.sessions = 2}, 1024, tokenizer.get());
    server.CreateSession("s");
    auto stream = server.engine->Generate(Ask({1}, 40, "s"), [] {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    server.AwaitIdle();  // all is generated
    takes_part = consumes = true;
    countdown = n;
    try {
      EXPECT_TRUE((*stream)->Take().finished);
    } catch (const std::bad_alloc&) {
      failed = n;
    }
    takes_part = consumes = false;
    countdown = 0;
    EXPECT_EQ((*stream)->delivered(), 40);
    const std::vector<int32_t> history = Joined({1}, Continuation({1}, 40));
    const Outcome next = server.Run(Ask({}, 5, "s"));
    EXPECT_TRUE(next.status.ok()) << next.status;
    EXPECT_EQ(next.tokens, Continuation(history, 5));
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  may_fail = nullptr;
  EXPECT_GT(failed, 0);
}

// A session is deleted while its call runs, and the engine ends: the statuses of calls
// that end then.
TEST_P(FailingAllocations, OfTheRunnerThatEndsCalls) {
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    std::vector<absl::Status> ends;
    {
      ToyServer server(GetParam(), {.sessions = 4});
      server.CreateSession("s");
      server.decoder.Allow(0);
      Reader deleted(*server.engine, Ask({1, 2}, 40, "s"));
      server.decoder.AwaitHeld();
      Reader goes_on(*server.engine, Ask({1}, 900));
      ASSERT_TRUE(server.engine->DeleteSession("s").ok());
      countdown = n;
      server.decoder.Allow(1);
      ends.push_back(deleted.Finish().status);
      std::thread end([&] {
        takes_part = false;
        server.engine.reset();
      });
      server.decoder.AllowAll();
      ends.push_back(goes_on.Finish().status);
      end.join();
      if (countdown.exchange(0) <= 0) failed = n;
    }
    for (const absl::Status& status : ends) {
      const std::string reason = ReasonOf(status);
      EXPECT_TRUE(status.ok() || reason == "SESSION_DELETED" || reason == "DRAINING" ||
                  absl::IsResourceExhausted(status))
          << status;
    }
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 5);
}

class FailingPredictions : public testing::Test {
 protected:
  FailingPredictions() { takes_part = false; }
  ~FailingPredictions() override {
    countdown = 0;
    takes_part = true;
  }
};

// A refused call is not answered; one that was taken is, once.
TEST_F(FailingPredictions, OfTheCaller) {
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    Answer runs, answer;
    bool taken = false;
    {
      Encoder encoder;
      // Allocations of the runner do not count: it waits.
      encoder.predictor.Close();
      ASSERT_TRUE(encoder.Start(runs, {1}).ok());
      ASSERT_TRUE(encoder.predictor.AwaitHeld());
      PredictRequest request{.model = "encoder", .tokens = Tokens(20, 1), .batch = 1};
      for (int32_t& token : request.tokens) token %= ToyPredictor::kVocab - 1;
      OnPredicted on_done = answer.Callback();
      takes_part = true;
      countdown = n;
      auto cancel = encoder.engine->Predict(std::move(request), std::move(on_done));
      taken = cancel.ok();
      if (taken) (*cancel)();
      takes_part = false;
      if (countdown.exchange(0) <= 0) failed = n;
      encoder.predictor.Open();
      EXPECT_TRUE(runs.Await().ok());
      if (taken) {
        EXPECT_TRUE(absl::IsCancelled(answer.Await().status()));
      } else {
        EXPECT_EQ(ReasonOf(cancel.status()), "OUT_OF_MEMORY");
      }
      EXPECT_TRUE(encoder.Run({1, 2}).ok());
    }
    // Nothing is called after the end of the engine.
    EXPECT_EQ(answer.count(), taken ? 1 : 0);
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 3);
}

TEST_F(FailingPredictions, OfTheRunner) {
  int64_t failed = 0;
  for (int64_t n = 1; failed == n - 1; ++n) {
    Encoder encoder({.callback_threads = 1}, 3);
    Answer first, good, throws;
    const auto taken = encoder.engine->Predict(
        {.model = "encoder", .tokens = {1}, .batch = 1},
        [done = first.Callback()](absl::StatusOr<Predictor::Output> output) {
          takes_part = false;  // the callback thread
          done(std::move(output));
        });
    ASSERT_TRUE(taken.ok() && first.Await().ok());
    countdown = n;
    ASSERT_TRUE(encoder.Start(good, {1, 2, 3}).ok());
    ASSERT_TRUE(encoder.Start(throws, {ToyPredictor::kThrowing}).ok());
    const absl::Status status = good.Await().status();
    const std::string thrown = ReasonOf(throws.Await().status());
    ASSERT_TRUE(encoder.engine->WaitIdle(kPatience));
    if (countdown.exchange(0) <= 0) failed = n;
    EXPECT_TRUE(status.ok() || ReasonOf(status) == "OUT_OF_MEMORY") << status;
    EXPECT_TRUE(thrown == "MODEL_FAILURE" || thrown == "OUT_OF_MEMORY") << thrown;
    EXPECT_EQ(good.count() + throws.count(), 2);
    EXPECT_TRUE(encoder.Run({1, 2}).ok());
    if (HasFailure()) FAIL() << "allocation " << n;
  }
  EXPECT_GT(failed, 5);
}

// All that were added before are found, and the next try works.
TEST_F(FailingPredictions, OfSessionsThatFallAsleep) {
  SleepingSessions sleeping{ByteCharge()};
  int failed = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = StrCat("s", i * 7919 % 2000);
    const std::string request_id = i % 3 == 0 ? "" : StrCat("request of ", id);
    const SleepingSession session{.id = id, .request_id = request_id, .facts = {}};
    for (int64_t allocation = 1;; ++allocation) {
      bool added = false;
      takes_part = true;
      countdown = allocation;
      try {
        sleeping.Add(SleepingSessions::Block(session));
        added = true;
      } catch (const std::bad_alloc&) {
        ++failed;
      }
      countdown = 0;
      takes_part = false;
      ASSERT_EQ(sleeping.Find(id).has_value(), added);
      ASSERT_EQ(sleeping.size(), i + (added ? 1 : 0));
      ASSERT_EQ(sleeping.FindRequest(StrCat("request of ", id)).has_value(),
                added && !request_id.empty());
      if (added) break;
    }
  }
  EXPECT_GT(failed, 2000);
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(sleeping.Take(StrCat("s", i)));
  EXPECT_EQ(sleeping.size(), 0);
  EXPECT_FALSE(sleeping.FindRequest("request of s1"));
}

}  // namespace
}  // namespace mnemon
