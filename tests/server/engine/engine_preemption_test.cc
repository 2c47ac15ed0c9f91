// SPDX-License-Identifier: MIT
// Running calls that do not fit together: they take turns, and nobody can tell from
// what they give.
#include <algorithm>
#include <random>
#include <thread>

#include "base/strings.h"
#include "model/state/arena.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kAppendCapacity = 96;

bool Appends(ToyState state) {
  return state == ToyState::kAppend || state == ToyState::kFixedAndAppend;
}

// Room for a session of full length, and some.
Engine::Options Narrow(ToyState state) {
  const ToyDecoder decoder(state, kAppendCapacity);
  const StateSpec& spec = decoder.spec();
  const auto one = StateArena::Create(spec, {.slots = 1});
  const int64_t block = 16 * spec.row_elements() * static_cast<int64_t>(sizeof(float));
  // A ring gives most of what its prompt took back.
  const int64_t blocks = spec.growth() == Growth::kRing
                             ? (*one)->pools().blocks() + 1
                             : (*one)->pools().blocks() * 3 / 2;
  return {.running = 8, .state_bytes = 12 * spec.bytes_at(0) + blocks * block};
}

class Preemption : public testing::TestWithParam<ToyState> {
 protected:
  Preemption() : server_(GetParam(), Narrow(GetParam()), kAppendCapacity) {}
  std::vector<int32_t> Expected(const std::vector<int32_t>& history, int64_t count) {
    return ToyContinuation(GetParam(), history, count, AskedSampling());
  }
  int64_t Preemptions() { return server_.engine->Stats().models[0].preemptions; }

  ToyServer server_;
};

// Sessions of many calls, read, cancelled and left unread at random, beside one
// another.
TEST_P(Preemption, AllCallsComeToTheirEnds) {
  constexpr int kThreads = 6, kCalls = 25;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i + 1);
      const std::string id = StrCat("s", i);
      for (int k = 0; k < kCalls; ++k) {
        ASSERT_TRUE(server_.engine->CreateSession({.id = id}).ok());
        std::vector<int32_t> history;
        while (history.size() < 70) {
          const auto prompt = Tokens(1 + random() % 12, random());
          const int32_t count = std::min<int32_t>(
              20 + random() % 30, kAppendCapacity - 1 - history.size() - prompt.size());
          history = Joined(history, prompt);
          const auto expected = Expected(history, count);
          Reader reader(*server_.engine, Ask(prompt, count, id));
          ASSERT_TRUE(reader.status().ok()) << reader.status();
          // Some readers are slow.
          if (random() % 4 == 0) std::this_thread::sleep_for(milliseconds(2));
          const Outcome outcome = reader.Finish();
          ASSERT_TRUE(outcome.status.ok()) << outcome.status;
          ASSERT_EQ(outcome.tokens, expected);
          history = Joined(history, expected);
        }
        ASSERT_EQ(server_.Position(id), static_cast<int64_t>(history.size()));
        ASSERT_TRUE(server_.engine->DeleteSession(id).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Rings give blocks back all the time, and may get by.
  if (Appends(GetParam())) {
    EXPECT_GT(Preemptions(), 0);
  }
}

// What a call draws from besides its state stays as it was.
TEST_P(Preemption, KeepsPenalties) {
  GenerateRequest request = Ask({1, 2, 3}, 80);
  request.sampling.frequency_penalty = 0.5;
  request.sampling.repetition_penalty = 1.2;
  request.sampling.penalty_window_tokens = 40;
  const Outcome alone = server_.Run(request);
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  std::vector<std::unique_ptr<Reader>> readers;
  server_.decoder.Allow(0);
  for (int i = 0; i < 6; ++i) {
    readers.push_back(std::make_unique<Reader>(*server_.engine, request));
  }
  server_.decoder.AllowAll();
  for (const auto& reader : readers) {
    const Outcome outcome = reader->Finish();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.tokens, alone.tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(States, Preemption, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

}  // namespace
}  // namespace mnemon
