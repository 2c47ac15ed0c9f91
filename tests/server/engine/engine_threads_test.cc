// SPDX-License-Identifier: MIT
// Everything at once from many threads: nothing hangs, nothing leaks, and every token
// that a session delivers is the one it would have delivered alone.
#include <random>
#include <thread>

#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

class ThreadsEachState : public testing::TestWithParam<ToyState> {};
INSTANTIATE_TEST_SUITE_P(Engine, ThreadsEachState, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

constexpr int kThreads = 8;

// The thread's own session, of which it knows the history.
class OwnedSession {
 public:
  OwnedSession(ToyServer& server, ToyState state, int thread)
      : server_(server), state_(state), id_("own-" + std::to_string(thread)) {}

  void Call(std::mt19937& random) {
    Engine& engine = *server_.engine;
    const absl::Status made = engine.CreateSession({.id = id_}).status();
    if (ReasonOf(made) == "SESSION_LIMIT") return;
    ASSERT_TRUE(made.ok() || ReasonOf(made) == "SESSION_EXISTS") << made;
    if (history_.size() > 150) {
      ASSERT_TRUE(engine.DeleteSession(id_).ok());
      history_.clear();
      return;
    }
    const auto prompt = Tokens(1 + random() % 20, random());
    const int count = random() % 60;
    Reader reader(engine, Ask(prompt, count, id_));
    ASSERT_TRUE(reader.status().ok()) << reader.status();
    history_ = Joined(history_, prompt);
    const auto expected = ToyContinuation(state_, history_, count, AskedSampling());
    const bool cancel = random() % 3 == 0;
    if (cancel) {
      const bool ended = random() % 2 && reader.stream().Take().finished;
      reader.stream().Cancel();
      // Cancelled before its first token, the call has left nothing behind.
      const auto delivered = static_cast<size_t>(reader.stream().delivered());
      while (engine.GetSession(id_)->state != SessionState::kIdle) {
        std::this_thread::yield();
      }
      const size_t position = server_.Position(id_);
      if (delivered == 0 && !ended) {
        history_.resize(history_.size() - prompt.size());
        ASSERT_EQ(position, history_.size());
        return;
      }
      ASSERT_EQ(position, history_.size() + delivered);
      history_.insert(history_.end(), expected.begin(), expected.begin() + delivered);
    } else {
      const Outcome outcome = reader.Finish();
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_EQ(outcome.tokens, expected);
      history_ = Joined(history_, expected);
      ASSERT_EQ(server_.Position(id_), static_cast<int64_t>(history_.size()));
    }
  }

 private:
  ToyServer& server_;
  const ToyState state_;
  const std::string id_;
  std::vector<int32_t> history_;
};

// Sessions that all threads fight over: any typed answer will do.
void Fight(ToyServer& server, std::mt19937& random) {
  Engine& engine = *server.engine;
  const std::string id = "shared-" + std::to_string(random() % 3);
  switch (random() % 7) {
    case 0: {
      CreateSessionRequest request{.id = id};
      if (random() % 2) request.ttl = std::chrono::milliseconds(1 + random() % 20);
      (void)engine.CreateSession(request);
      break;
    }
    case 1:
      (void)engine.DeleteSession(id);
      break;
    case 2:
      (void)engine.ListSessions(random() % 5, "");
      (void)engine.GetSession(id);
      break;
    case 3:
      server.clock.Advance(std::chrono::milliseconds(1));
      (void)engine.Stats();
      break;
    default: {
      const int32_t kFaults[] = {ToyDecoder::kFailing, ToyDecoder::kThrowing,
                                 ToyDecoder::kNotANumber};
      auto prompt = Tokens(random() % 30, random());
      if (random() % 5 == 0) prompt.push_back(kFaults[random() % 3]);
      Reader reader(engine, Ask(prompt, random() % 40, random() % 2 ? id : ""));
      if (!reader.status().ok()) break;
      if (random() % 3) {
        reader.Finish();
      } else {
        reader.stream().Cancel();
      }
    }
  }
}

TEST_P(ThreadsEachState, RandomCallsFromManyThreads) {
  ToyServer server(GetParam(), {.sessions = 16, .max_queue = 4, .step_tokens = 40});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t + 100);
      OwnedSession own(server, GetParam(), t);
      for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
        if (random() % 2) {
          own.Call(random);
        } else {
          Fight(server, random);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  server.AwaitIdle();
  const auto page = server.engine->ListSessions(1000, "");
  for (const SessionFacts& facts : page->sessions) {
    EXPECT_EQ(facts.state, SessionState::kIdle);
    EXPECT_TRUE(server.engine->DeleteSession(facts.id).ok());
  }
  server.AwaitIdle();
  const EngineStats stats = server.engine->Stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.queued, 0);
  EXPECT_EQ(stats.sessions, 0);
  EXPECT_EQ(stats.state_bytes, 0);
  // All of the limit is free again, and no more than all.
  for (int i = 0; i < 16; ++i) server.CreateSession("again-" + std::to_string(i));
  EXPECT_FALSE(server.engine->CreateSession({}).ok());
}

TEST(EngineThreads, OneIdCreatedFromManyThreadsIsCreatedOnce) {
  ToyServer server(ToyState::kFixed);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> made = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back(
          [&] { made += server.engine->CreateSession({.id = "s"}).ok(); });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(made, 1);
    ASSERT_TRUE(server.engine->DeleteSession("s").ok());
  }
}

TEST(EngineThreads, EndsWhileStreamsAreReadAndCancelled) {
  for (int round = 0; round < 30; ++round) {
    auto server = std::make_unique<ToyServer>(ToyState::kRing);
    std::vector<std::unique_ptr<Reader>> readers;
    for (int t = 0; t < kThreads; ++t) {
      readers.push_back(std::make_unique<Reader>(*server->engine, Ask({t}, 2000)));
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        if (t % 2) {
          readers[t]->Next();
          readers[t]->stream().Cancel();
        }
        readers[t]->Finish();
      });
    }
    server.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace mnemon
