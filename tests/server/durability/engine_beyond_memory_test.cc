// SPDX-License-Identifier: MIT
// Sessions of which the store has far more than memory: turns on any of them go on, and
// calls without a session have their room.
#include <random>

#include "base/strings.h"
#include "tests/server/durability/sleepers.h"
#include "tests/server/durability/stored_server.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Asks until it is taken, and counts how often it was not.
template <class Ask>
auto Counted(int& refused, const Ask& ask) {
  return Insist([&] {
    auto answer = ask();
    if (!StatusOf(answer).ok()) ++refused;
    return answer;
  });
}

class BeyondMemory : public StoreFixture,
                     public testing::WithParamInterface<ToyState> {};

// Ten times what memory has for them, and more of them than it has room for.
TEST_P(BeyondMemory, TurnsOnRandomSessionsGoOn) {
  constexpr int kSessions = 600, kTurns = 200;
  // A token of a growing one takes longer the more there are before it.
  const bool appends =
      GetParam() == ToyState::kAppend || GetParam() == ToyState::kFixedAndAppend;
  const int64_t tokens = appends ? 650 : 2000;
  StoredServer stored(Path(), GetParam(), Narrow(GetParam(), kMiB / 2), 1 << 16);
  Engine& engine = stored.engine();
  int refused = 0;
  std::vector<int64_t> sizes(kSessions);
  for (int i = 0; i < kSessions; ++i) {
    const std::string id = StrCat("s", i);
    const auto made =
        Counted(refused, [&] { return engine.CreateSession({.id = id}); });
    ASSERT_TRUE(made.ok()) << i << ": " << made.status();
    const Outcome outcome = Counted(
        refused, [&] { return stored.server->Run(Ask(Tokens(tokens, i), 2, id)); });
    ASSERT_TRUE(outcome.status.ok()) << i << ": " << outcome.status;
    sizes[i] = tokens + 2;
  }
  std::mt19937 random(7);
  for (int turn = 0; turn < kTurns; ++turn) {
    const int i = static_cast<int>(random() % kSessions);
    const Outcome outcome = Counted(
        refused, [&] { return stored.server->Run(Ask({1}, 2, StrCat("s", i))); });
    ASSERT_TRUE(outcome.status.ok()) << i << ": " << outcome.status;
    sizes[i] += 3;
    ASSERT_EQ(engine.GetSession(StrCat("s", i))->position, sizes[i]);
    // Nobody waits for room that sessions at rest have taken.
    ASSERT_TRUE(stored.server->Run(Ask({1, 2}, 2)).status.ok());
  }
  // A slow machine has not written all of it yet.
  ASSERT_TRUE(engine.SaveSessions(std::chrono::steady_clock::now() + kPatience));
  const EngineStats stats = engine.Stats();
  EXPECT_GT(stats.store->snapshot_bytes + stats.store->journal.bytes,
            10 * stats.memory.resting_limit);
  EXPECT_GT(stats.asleep, kSessions / 2);
  EXPECT_EQ(stats.sessions, kSessions);
  EXPECT_LE(stats.memory.used, stats.memory.limit);
  EXPECT_LE(refused, (2 * kSessions + kTurns) / 50);
}

// Nothing but where it lies tells that a session has slept.
TEST_P(BeyondMemory, ASessionThatSleptIsTheSame) {
  StoredServer stored(Path(), GetParam(), Narrow(GetParam(), kMiB / 2));
  Engine& engine = stored.engine();
  CreateSessionRequest create{.id = "a"};
  create.request_id = "00000000-0000-4000-8000-000000000001";
  create.settings.ttl = seconds(1000);
  create.settings.sampling = SessionSampling{.values = {.temperature = 0.5}, .seed = 3};
  ASSERT_TRUE(engine.CreateSession(create).ok());
  GenerateRequest turn = Ask({1, 2, 3}, 4, "a");
  turn.request_id = "00000000-0000-4000-8000-000000000002";
  const Outcome first = stored.server->Run(turn);
  ASSERT_TRUE(first.status.ok());
  ASSERT_TRUE(CheckpointSession(engine, {.session = "a", .id = "c"}).ok());
  stored.server->AwaitIdle();
  const SessionFacts before = *engine.GetSession("a");
  PutToSleep(stored.engine());
  // Listed without being woken up.
  const auto page = engine.ListSessions({.page_size = 1});
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->sessions.size(), 1u);
  for (const SessionFacts& now : {page->sessions[0], *engine.GetSession("a")}) {
    EXPECT_EQ(now.id, "a");
    EXPECT_EQ(now.etag, before.etag);
    EXPECT_EQ(now.position, before.position);
    EXPECT_EQ(now.expire_time, before.expire_time);
    EXPECT_EQ(now.last_use_time, before.last_use_time);
    EXPECT_EQ(now.sampling, before.sampling);
    EXPECT_EQ(now.checkpoints.size(), 1u);
  }
  EXPECT_EQ(ReasonOf(engine.CreateSession({.id = "a"}).status()), "SESSION_EXISTS");
  const auto again = engine.CreateSession(create);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->etag, before.etag);
  // Its newest call is repeated, not made again.
  const Outcome repeated = stored.server->Run(turn);
  EXPECT_TRUE(repeated.status.ok()) << repeated.status;
  EXPECT_EQ(repeated.tokens, first.tokens);
  EXPECT_EQ(stored.server->Position("a"), before.position);
  ASSERT_TRUE(engine.DeleteSession("a").ok());
  EXPECT_EQ(ReasonOf(engine.GetSession("a").status()), "SESSION_NOT_FOUND");
}

TEST_P(BeyondMemory, ASessionExpiresInItsSleep) {
  StoredServer stored(Path(), GetParam(), Narrow(GetParam(), kMiB / 2));
  Engine& engine = stored.engine();
  ASSERT_TRUE(engine.CreateSession({.id = "a", .settings = {.ttl = seconds(10)}}).ok());
  ASSERT_TRUE(stored.server->Run(Ask({1, 2, 3}, 4, "a")).status.ok());
  PutToSleep(stored.engine());
  const int64_t sessions = engine.Stats().sessions;
  stored.server->clock.Advance(seconds(11));
  EXPECT_EQ(ReasonOf(engine.GetSession("a").status()), "SESSION_EXPIRED");
  EXPECT_EQ(engine.Stats().sessions, sessions - 1);
}

// What the store cannot give any more can be deleted.
TEST_P(BeyondMemory, ASessionIsDamagedInItsSleep) {
  StoredServer stored(Path(), GetParam(), Narrow(GetParam(), kMiB / 2));
  Engine& engine = stored.engine();
  ASSERT_TRUE(engine.CreateSession({.id = "a"}).ok());
  ASSERT_TRUE(stored.server->Run(Ask({1, 2, 3}, 4, "a")).status.ok());
  PutToSleep(stored.engine());
  const int64_t sessions = engine.Stats().sessions;
  ASSERT_TRUE(PutRecord(*stored.store, "a", "no record").ok());
  EXPECT_EQ(ReasonOf(engine.GetSession("a").status()), "SESSION_DAMAGED");
  EXPECT_EQ(ReasonOf(engine.CreateSession({.id = "a"}).status()), "SESSION_EXISTS");
  EXPECT_EQ(engine.Stats().sessions, sessions);
  ASSERT_TRUE(engine.DeleteSession("a").ok());
  EXPECT_EQ(ReasonOf(engine.GetSession("a").status()), "SESSION_NOT_FOUND");
  EXPECT_EQ(engine.Stats().sessions, sessions - 1);
  ASSERT_TRUE(engine.CreateSession({.id = "a"}).ok());
  EXPECT_EQ(engine.GetSession("a")->position, 0);
}

INSTANTIATE_TEST_SUITE_P(States, BeyondMemory,
                         testing::Values(ToyState::kFixed, ToyState::kAppend,
                                         ToyState::kRing, ToyState::kFixedAndAppend),
                         [](const auto& info) { return ToyName(info.param); });

// Sessions that the store does not keep cannot leave memory: new ones are refused
// before they take what calls need.
TEST(SessionCrowd, LeavesRoomForCalls) {
  ToyServer server(ToyState::kFixed, Narrow(ToyState::kFixed, kMiB));
  absl::Status refused;
  int made = 0;
  for (; refused.ok() && made < 10'000; ++made) {
    refused = server.engine->CreateSession({.id = StrCat("s", made)}).status();
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), "MEMORY_LIMIT");
  EXPECT_TRUE(GetErrorDetail(refused)->retry_after);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("delete some"));
  EXPECT_GT(made, 300);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(server.Run(Ask(Tokens(500, i), 20)).status.ok());
    // Those that are there can be used.
    GenerateRequest turn = Ask({1, 2, 3}, 20, StrCat("s", i));
    turn.request_id = StrCat("00000000-0000-4000-8000-0000000000", i + 10);
    ASSERT_TRUE(server.Run(turn).status.ok());
  }
  const EngineStats stats = server.engine->Stats();
  EXPECT_TRUE(stats.models[0].ready) << stats.models[0].unready;
  EXPECT_LE(stats.memory.sessions, stats.memory.sessions_limit);
  EXPECT_LE(stats.memory.used, stats.memory.limit);
}

// Checkpoints are among them.
TEST(SessionCrowd, OfCheckpointsLeavesRoomForCalls) {
  ToyServer server(ToyState::kFixed, Narrow(ToyState::kFixed, kMiB));
  absl::Status refused;
  for (int i = 0; refused.ok() && i < 10'000; ++i) {
    const std::string id = StrCat("s", i / 60);
    if (i % 60 == 0) refused = server.engine->CreateSession({.id = id}).status();
    if (refused.ok())
      refused = CheckpointSession(*server.engine, {.session = id}).status();
  }
  EXPECT_EQ(ReasonOf(refused), "MEMORY_LIMIT");
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(server.Run(Ask(Tokens(500, i), 20)).status.ok());
  }
}

// Where the room is really gone, readiness says so, until there is some again.
TEST(SessionCrowd, AModelWithoutRoomForACallIsNotReady) {
  ToyServer server(ToyState::kAppend, {.memory_bytes = kMiB});
  EXPECT_FALSE(server.Run(Ask({1}, 3)).status.ok());
  EXPECT_EQ(server.engine->Stats().models[0].unready, "memory full");
  server.clock.Advance(kMemoryFull + milliseconds(1));
  EXPECT_TRUE(server.engine->Stats().models[0].ready);
}

}  // namespace
}  // namespace mnemon
