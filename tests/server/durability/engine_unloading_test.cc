// SPDX-License-Identifier: MIT
// Histories that leave memory and come back: more of them than there is memory for.
#include <random>
#include <thread>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/durability/stored_server.h"

namespace mnemon {
namespace {

using std::chrono::seconds;

// What memory takes for states: whole runs of blocks, of each kind of entries.
int64_t Runs(ToyState state) {
  const bool both =
      state == ToyState::kFixedAndRing || state == ToyState::kFixedAndAppend;
  return (both ? 2 : 1) * (int64_t{2} << 20);
}

int64_t HistoryBytes(int64_t tokens) {
  return TokenHistory::BytesOf(tokens, TokenHistory::WidthFor(ToyDecoder::kVocab));
}

// More than Narrow has room for.
constexpr int64_t kTooMany = 60'000;
GenerateRequest TooMuch() { return Ask(Tokens(kTooMany, 9), 1); }
int64_t Narrow(ToyState state) { return Runs(state) + HistoryBytes(kTooMany) / 6 * 5; }

class EngineUnloading : public StoreFixture,
                        public testing::WithParamInterface<ToyState> {
 protected:
  static Outcome Run(StoredServer& stored, const GenerateRequest& request) {
    return Insist([&] { return stored.server->Run(request); });
  }
};

// Histories four times as large as memory.
TEST_P(EngineUnloading, MoreHistoriesThanMemory) {
  constexpr int kSessions = 160;
  // What a session remembers of its calls stays, too.
  const int64_t bytes = kSessions * (Session::kBytes + 600 + HistoryBytes(1500) / 4);
  StoredServer stored(Path(), GetParam(), {.memory_bytes = Runs(GetParam()) + bytes},
                      1 << 13);
  std::vector<std::vector<int32_t>> histories(kSessions);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kSessions; ++i) {
      const std::string id = StrCat("s", i);
      if (round == 0) {
        const auto made =
            Insist([&] { return stored.engine().CreateSession({.id = id}); });
        ASSERT_TRUE(made.ok()) << made.status();
      }
      const auto prompt = Tokens(round == 0 ? 1500 : 3, i);
      const Outcome outcome = Run(stored, Ask(prompt, 4, id));
      ASSERT_TRUE(outcome.status.ok()) << i << ": " << outcome.status;
      histories[i] = Joined(Joined(histories[i], prompt), outcome.tokens);
      ASSERT_EQ(stored.engine().GetSession(id)->position,
                static_cast<int64_t>(histories[i].size()));
    }
  }
  const EngineStats stats = stored.engine().Stats();
  EXPECT_GT(stats.store->unloaded, kSessions / 2);
  EXPECT_GT(stats.models[0].sessions_stored, kSessions / 4);
  EXPECT_LE(stats.memory.used, stats.memory.limit);
  for (const int i : {0, 1, kSessions / 2, kSessions - 1}) {
    EXPECT_EQ(HistoryOf(stored.engine(), StrCat("s", i)), histories[i]);
  }
  // A stranger to all this continues one as well.
  const Outcome alone = Run(stored, Ask(Joined(histories[3], {1, 2}), 10));
  EXPECT_EQ(Run(stored, Ask({1, 2}, 10, "s3")).tokens, alone.tokens);
}

// Calls, forks, rewinds and checkpoints beside sweeps, as many as there can be.
TEST_P(EngineUnloading, BesideAllThatUsesHistories) {
  constexpr int kThreads = 4, kTurns = 12;
  StoredServer stored(Path(), GetParam(), {.memory_bytes = Narrow(GetParam())},
                      1 << 16);
  std::atomic<bool> done = false;
  std::thread sweeps([&] {
    while (!done) {
      ASSERT_FALSE(stored.server->Run(TooMuch()).status.ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // room for others
    }
  });
  std::vector<std::pair<std::string, std::vector<int32_t>>> ends(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t + 1);
      Engine& engine = stored.engine();
      std::string id = StrCat("t", t);
      stored.CreateSession(id, t % 2 ? Durability::kTurn : Durability::kAlways);
      std::vector<int32_t> history, kept;
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto prompt = Tokens(1 + random() % 30, random());
        const Outcome outcome = Run(stored, Ask(prompt, 5, id));
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        const auto expected =
            ToyContinuation(GetParam(), Joined(history, prompt), 5, AskedSampling());
        ASSERT_EQ(outcome.tokens, expected);
        history = Joined(Joined(history, prompt), expected);
        // Sessions rest for a while: only such are unloaded.
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 4));
        switch (random() % 6) {
          case 0: {
            const std::string child = StrCat(id, "x");
            const auto made = Insist(
                [&] { return ForkSession(engine, {.session = id, .id = child}); });
            ASSERT_TRUE(made.ok()) << made.status();
            ASSERT_TRUE(engine.DeleteSession(id).ok());
            id = child;
            kept.clear();
            break;
          }
          case 1: {
            const int64_t tokens = static_cast<int64_t>(random() % history.size());
            const auto rewound = Insist([&] {
              return RewindSession(engine, {.session = id, .target = tokens});
            });
            ASSERT_TRUE(rewound.ok()) << rewound.status();
            history.resize(tokens);
            break;
          }
          case 2:
            if (kept.empty() &&
                CheckpointSession(engine, {.session = id, .id = "c"}).ok()) {
              kept = history;
            }
            break;
          case 3:
            if (!kept.empty()) {
              const auto rewound = Insist([&] {
                return RewindSession(engine,
                                     {.session = id, .target = std::string("c")});
              });
              ASSERT_TRUE(rewound.ok()) << rewound.status();
              history = kept;
            }
            break;
          case 4:
            ASSERT_EQ(engine.GetSession(id)->position,
                      static_cast<int64_t>(history.size()));
            break;
          default:
            break;
        }
        ASSERT_EQ(engine.GetSession(id)->position,
                  static_cast<int64_t>(history.size()));
      }
      ends[t] = {id, history};
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  sweeps.join();
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(HistoryOf(stored.engine(), ends[t].first), ends[t].second);
  }
  // Where the threads were done before a sweep found anything, one does now.
  EXPECT_TRUE(Eventually([&] {
    if (stored.engine().Stats().store->unloaded > 0) return true;
    EXPECT_FALSE(stored.server->Run(TooMuch()).status.ok());
    return false;
  }));
}

// What is not in memory is not lost when the store fails meanwhile.
TEST_P(EngineUnloading, AFailingStoreTakesNothingFromThem) {
  StoredServer stored(Path(), GetParam(), {.memory_bytes = Narrow(GetParam())},
                      1 << 16);
  stored.CreateSession("s", Durability::kTurn);
  const Outcome first = stored.server->Run(Ask(Tokens(700, 1), 20, "s"));
  ASSERT_TRUE(first.status.ok());
  const auto history = Joined(Tokens(700, 1), first.tokens);
  stored.server->AwaitIdle();
  ASSERT_TRUE(Eventually([&] {
    if (stored.engine().Stats().store->unloaded > 0) return true;
    EXPECT_FALSE(stored.server->Run(TooMuch()).status.ok());
    return false;
  }));
  ASSERT_EQ(stored.engine().Stats().models[0].sessions_stored, 1);
  stored.files->Fail(DiskFault::kFull);
  UpdateSessionRequest update{.session = "s"};
  update.settings.ttl = seconds(1000);
  EXPECT_FALSE(stored.engine().UpdateSession(update).ok());
  stored.files->Fail(DiskFault::kNone);
  ASSERT_TRUE(Eventually([&] { return stored.engine().UpdateSession(update).ok(); }));
  EXPECT_EQ(HistoryOf(stored.engine(), "s"), history);
  const Outcome more = stored.server->Run(Ask({1, 2}, 20, "s"));
  ASSERT_TRUE(more.status.ok()) << more.status;
  EXPECT_EQ(more.tokens, stored.server->Run(Ask(Joined(history, {1, 2}), 20)).tokens);
}

INSTANTIATE_TEST_SUITE_P(States, EngineUnloading, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

}  // namespace
}  // namespace mnemon
