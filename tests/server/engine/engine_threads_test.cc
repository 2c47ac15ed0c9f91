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

constexpr int kCallers = 8;
constexpr int kCallsPerThread = 250;  // of each of five states: 10,000 in all

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
    const auto asked = Joined(history_, prompt);
    const auto expected = ToyContinuation(state_, asked, count, AskedSampling());
    if (random() % 3 == 0) {
      const TokenChunk seen = random() % 2 ? reader.stream().Take() : TokenChunk();
      reader.stream().Cancel();
      while (engine.GetSession(id_)->state != SessionState::kIdle) {
        std::this_thread::yield();
      }
      Keep(asked, expected, reader.stream().delivered(),
           seen.finished && seen.status.ok());
    } else {
      const Outcome outcome = reader.Finish();
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_EQ(outcome.tokens, expected);
      Keep(asked, expected, outcome.tokens.size(), /*ended_ok=*/true);
    }
    ASSERT_EQ(server_.Position(id_), static_cast<int64_t>(history_.size()));
  }

 private:
  // What a call leaves behind that delivered so many tokens: nothing, where it ended
  // otherwise than OK before its first.
  void Keep(const std::vector<int32_t>& asked, const std::vector<int32_t>& expected,
            int64_t delivered, bool ended_ok) {
    if (delivered == 0 && !ended_ok) return;
    history_ = asked;
    history_.insert(history_.end(), expected.begin(), expected.begin() + delivered);
  }

  ToyServer& server_;
  const ToyState state_;
  const std::string id_;
  std::vector<int32_t> history_;
};

// Sessions that all threads fight over: any typed answer will do.
void Fight(ToyServer& server, std::mt19937& random) {
  Engine& engine = *server.engine;
  const std::string id = "shared-" + std::to_string(random() % 3);
  switch (random() % 8) {
    case 0: {
      CreateSessionRequest request{.id = id};
      if (random() % 2)
        request.settings.ttl = std::chrono::milliseconds(1 + random() % 20);
      (void)engine.CreateSession(request);
      break;
    }
    case 1:
      (void)engine.DeleteSession(id);
      break;
    case 2:
      (void)engine.ListSessions({.page_size = static_cast<int32_t>(random() % 5)});
      (void)engine.GetSession(id);
      break;
    case 3:
      server.clock.Advance(std::chrono::milliseconds(1));
      (void)engine.Stats();
      break;
    case 4: {
      ScoreRequest request;
      if (random() % 2) request.session = id;
      auto call = engine.Score(request, [] {});
      if (!call.ok()) break;
      (void)call->append(Tokens(1 + random() % 30, random()));
      if (random() % 2) call->close();
      call->stream->Cancel();
      break;
    }
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

// States of sessions that grow to 250 tokens: for few, or for all.
int64_t StateBytes(ToyState state, int sessions) {
  const ToyDecoder decoder(state);
  const StateSpec& spec = decoder.spec();
  const int64_t row = spec.row_elements() * static_cast<int64_t>(sizeof(float));
  return sessions * (spec.bytes_at(0) + row * 256);
}

void CallAtRandom(ToyState state, int64_t state_bytes) {
  ToyServer server(
      state,
      {.sessions = 16, .max_queue = 16, .state_bytes = state_bytes, .step_tokens = 40},
      /*append_capacity=*/256);
  std::vector<std::thread> threads;
  for (int t = 0; t < kCallers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t + 100);
      OwnedSession own(server, state, t);
      for (int i = 0; i < kCallsPerThread && !testing::Test::HasFatalFailure(); ++i) {
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
  const auto page = server.engine->ListSessions({.page_size = 1000});
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

TEST_P(ThreadsEachState, RandomCallsFromManyThreads) {
  CallAtRandom(GetParam(), StateBytes(GetParam(), 16));
}

TEST_P(ThreadsEachState, RandomCallsWithBlocksForAFew) {
  CallAtRandom(GetParam(), StateBytes(GetParam(), 2));
}

TEST(EngineThreads, OneIdCreatedFromManyThreadsIsCreatedOnce) {
  ToyServer server(ToyState::kFixed);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> made = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kCallers; ++t) {
      threads.emplace_back(
          [&] { made += server.engine->CreateSession({.id = "s"}).ok(); });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(made, 1);
    ASSERT_TRUE(server.engine->DeleteSession("s").ok());
  }
}

TEST(EngineThreads, EndsWhileTwoModelsTakeTurns) {
  FakeClock clock;
  for (int round = 0; round < 30; ++round) {
    ToyDecoder first(ToyState::kFixed), second(ToyState::kFixed);
    std::vector<EngineModel> models(2);
    models[0].facts.name = "first";
    models[0].decoder = &first;
    models[1].facts.name = "second";
    models[1].decoder = &second;
    auto engine = Engine::Create(models, {.clock = &clock});
    ASSERT_TRUE(engine.ok());
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int i = 0; i < 8; ++i) {
      GenerateRequest request = Ask({i}, 2000);
      request.model = i % 2 ? "first" : "second";
      // Read at once, so that nothing ever pauses.
      auto slot = std::make_shared<std::atomic<TokenStream*>>(nullptr);
      auto stream = (*engine)->Generate(request, [slot] {
        while (*slot == nullptr) std::this_thread::yield();
        slot->load()->Take();
      });
      ASSERT_TRUE(stream.ok());
      *slot = stream->get();
      streams.push_back(*std::move(stream));
    }
  }
}

TEST(EngineThreads, EndsWhileStreamsAreReadAndCancelled) {
  for (int round = 0; round < 30; ++round) {
    auto server = std::make_unique<ToyServer>(ToyState::kRing);
    std::vector<std::unique_ptr<Reader>> readers;
    for (int t = 0; t < kCallers; ++t) {
      readers.push_back(std::make_unique<Reader>(*server->engine, Ask({t}, 2000)));
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < kCallers; ++t) {
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
