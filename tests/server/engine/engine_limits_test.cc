// SPDX-License-Identifier: MIT
// Sessions as resources: names, limits, the queue, time to live, busy, delete, drain.
#include <malloc.h>

#include <set>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

TEST(EngineSessions, CreateGetListDelete) {
  ToyServer server(ToyState::kFixed);
  Engine& engine = *server.engine;
  const auto made = engine.CreateSession({.id = "a"});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->id, "a");
  EXPECT_EQ(made->model, "toy");
  EXPECT_EQ(made->state, SessionState::kIdle);
  EXPECT_FALSE(made->expire_time);
  EXPECT_EQ(made->create_time, server.clock.WallNow());
  const absl::Status twice = engine.CreateSession({.id = "a"}).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(twice), "SESSION_EXISTS");
  EXPECT_EQ(FieldOf(engine.CreateSession({.id = "A"}).status()), "session_id");
  EXPECT_EQ(ReasonOf(engine.CreateSession({.id = "b", .model = "m"}).status()),
            "MODEL_NOT_FOUND");

  server.clock.Advance(milliseconds(5000));
  server.Run(Ask({1, 2, 3}, 4, "a"));
  server.AwaitIdle();
  const auto facts = engine.GetSession("a");
  EXPECT_EQ(facts->position, 7);
  EXPECT_EQ(facts->state_size_bytes, 12);
  EXPECT_EQ(facts->last_use_time - facts->create_time, milliseconds(5000));

  EXPECT_TRUE(engine.DeleteSession("a").ok());
  for (const absl::Status& gone :
       {engine.GetSession("a").status(), engine.DeleteSession("a")}) {
    EXPECT_EQ(gone.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(ReasonOf(gone), "SESSION_NOT_FOUND");
  }
  server.AwaitIdle();
  EXPECT_EQ(engine.Stats().state_bytes, 0);
  // The name is free, and nothing of the old memory is left.
  server.CreateSession("a");
  EXPECT_EQ(server.Run(Ask({1}, 9, "a")).tokens,
            ToyContinuation(ToyState::kFixed, {1}, 9, AskedSampling()));
}

TEST(EngineSessions, DrawnIdsAreDifferentAndValid) {
  ToyServer server(ToyState::kFixed);
  std::set<std::string> ids;
  for (int i = 0; i < 50; ++i) {
    const auto made = server.engine->CreateSession({});
    ASSERT_TRUE(made.ok());
    EXPECT_THAT(made->id, MatchesRegex("[0-9a-f]{32}"));
    ids.insert(made->id);
  }
  EXPECT_THAT(ids, SizeIs(50));
}

TEST(EngineSessions, PagesAreCompleteAndOrdered) {
  ToyServer server(ToyState::kFixed, {.sessions = 2000});
  Engine& engine = *server.engine;
  std::vector<std::string> ids;
  for (int i = 0; i < 1234; ++i) {
    ids.push_back("s" + std::to_string(i));
    server.CreateSession(ids.back());
  }
  std::sort(ids.begin(), ids.end());
  for (int32_t size : {0, 1, 7, 1000, INT32_MAX}) {
    std::vector<std::string> seen;
    std::string token;
    do {
      const auto page = engine.ListSessions({size, token});
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_LE(page->sessions.size(), size == 0 ? 100u : std::min(size, 1000));
      for (const SessionFacts& facts : page->sessions) seen.push_back(facts.id);
      token = page->next_page_token;
      if (size == 1 && seen.size() == 20) break;
    } while (!token.empty());
    if (size != 1) {
      EXPECT_EQ(seen, ids);
    }
  }
  // A page token survives the deletion of the session it points at.
  const auto page = engine.ListSessions({.page_size = 3});
  ASSERT_TRUE(engine.DeleteSession(page->sessions.back().id).ok());
  EXPECT_EQ(engine.ListSessions({1, page->next_page_token})->sessions[0].id, ids[3]);

  EXPECT_EQ(FieldOf(engine.ListSessions({.page_size = -1}).status()), "page_size");
  for (const char* bad : {"x", "after.", "after.A", "after.a\n", "AFTER.a"}) {
    EXPECT_EQ(FieldOf(engine.ListSessions({1, bad}).status()), "page_token") << bad;
  }
}

TEST(EngineSessions, FiltersAndOrders) {
  ToyServer server(ToyState::kFixed, {.sessions = 2000});
  Engine& engine = *server.engine;
  // More than are looked at at once, of which few match.
  for (int i = 0; i < 300; ++i) {
    server.clock.Advance(milliseconds(1));
    server.clock.JumpWall(milliseconds(1));
    CreateSessionRequest request{.id = "s" + std::to_string(1000 + i)};
    if (i % 100 == 7) request.settings.ttl = milliseconds(1'000'000 - 10 * i);
    ASSERT_TRUE(engine.CreateSession(request).ok());
  }
  const auto list = [&](ListSessionsRequest request) {
    std::vector<std::string> ids;
    do {
      const auto page = engine.ListSessions(request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const SessionFacts& facts : page->sessions) ids.push_back(facts.id);
      request.page_token = page->next_page_token;
    } while (!request.page_token.empty());
    return ids;
  };
  using ::testing::ElementsAre;
  for (const int32_t size : {1, 2, 3, 100}) {
    EXPECT_THAT(list({.page_size = size, .filter = "expire_time:*"}),
                ElementsAre("s1007", "s1107", "s1207"));
    EXPECT_THAT(
        list({.page_size = size, .filter = "expire_time:*", .order_by = "expire_time"}),
        ElementsAre("s1207", "s1107", "s1007"));
  }
  EXPECT_THAT(list({.filter = "model = models/toy state = IDLE"}), SizeIs(300));
  EXPECT_THAT(list({.filter = "model = models/other"}), SizeIs(0));
  for (const int32_t size : {1, 7, 70, 100}) {
    for (const char* order : {"", "create_time"}) {
      EXPECT_THAT(
          list({.page_size = size, .filter = "name = s112*", .order_by = order}),
          ElementsAre("s1120", "s1121", "s1122", "s1123", "s1124", "s1125", "s1126",
                      "s1127", "s1128", "s1129"));
      EXPECT_THAT(list({.page_size = size,
                        .filter = "name >= s1063 name < s1199",
                        .order_by = order}),
                  SizeIs(136));
    }
    EXPECT_THAT(list({.page_size = size, .filter = "name = s1299"}),
                ElementsAre("s1299"));
    EXPECT_THAT(list({.page_size = size, .filter = "name > s1299"}), SizeIs(0));
  }
  const std::vector<std::string> newest = list({.order_by = "create_time desc"});
  EXPECT_THAT(newest, SizeIs(300));
  EXPECT_TRUE(std::is_sorted(newest.rbegin(), newest.rend()));

  EXPECT_EQ(FieldOf(engine.ListSessions({.filter = "x"}).status()), "filter");
  EXPECT_EQ(FieldOf(engine.ListSessions({.order_by = "x"}).status()), "order_by");
  const auto page = engine.ListSessions({.page_size = 1});
  EXPECT_EQ(FieldOf(engine
                        .ListSessions({.page_token = page->next_page_token,
                                       .filter = "expire_time:*"})
                        .status()),
            "page_token");
}

TEST(EngineSessions, LimitIsExact) {
  ToyServer server(ToyState::kFixed, {.sessions = 3});
  for (const char* id : {"a", "b", "c"}) server.CreateSession(id);
  const absl::Status full = server.engine->CreateSession({.id = "d"}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "SESSION_LIMIT");
  EXPECT_TRUE(GetErrorDetail(full)->retry_after);
  // A call without a session is none.
  EXPECT_TRUE(server.Run(Ask({1}, 1)).status.ok());
  ASSERT_TRUE(server.engine->DeleteSession("b").ok());
  server.CreateSession("d");
  EXPECT_TRUE(server.Run(Ask({1}, 1, "d")).status.ok());
}

TEST(EngineSessions, AtTheLimitTheRetryTimeIsThatOfTheNextExpiry) {
  ToyServer server(ToyState::kFixed, {.sessions = 2});
  const auto retry_after = [&](const absl::Status& refused) {
    EXPECT_EQ(ReasonOf(refused), "SESSION_LIMIT");
    return *GetErrorDetail(refused)->retry_after;
  };
  server.CreateSession("a");
  ASSERT_TRUE(
      server.engine->CreateSession({.id = "b", .settings = {.ttl = milliseconds(5000)}})
          .ok());
  server.clock.Advance(milliseconds(2000));
  EXPECT_EQ(retry_after(server.engine->CreateSession({}).status()), milliseconds(3000));
  // A session that is in use does not expire.
  server.decoder.Allow(0);
  Reader runs(*server.engine, Ask({1}, 1, "b"));
  EXPECT_EQ(retry_after(server.engine->CreateSession({}).status()), milliseconds(1000));
  server.decoder.AllowAll();
  EXPECT_TRUE(runs.Finish().status.ok());
}

TEST(EngineQueue, CallsWaitForOneAnotherWithinABound) {
  ToyServer server(ToyState::kRing, {.running = 1, .max_queue = 3});
  server.CreateSession("s");
  server.decoder.Allow(0);
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 4; ++i) {
    readers.push_back(std::make_unique<Reader>(*server.engine, Ask({i}, 100)));
    EXPECT_TRUE(readers.back()->status().ok());
  }
  EXPECT_EQ(server.engine->Stats().queued, 3);
  EXPECT_EQ(server.engine->Stats().running, 1);
  const absl::Status full = Reader(*server.engine, Ask({1}, 1)).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
  EXPECT_TRUE(GetErrorDetail(full)->retry_after);

  // A waiting call that is cancelled leaves at once and computes nothing.
  readers[2]->stream().Cancel();
  EXPECT_EQ(server.engine->Stats().queued, 2);
  EXPECT_EQ(readers[2]->Finish().status.code(), absl::StatusCode::kCancelled);
  // Those on sessions wait in the same queue.
  Reader session(*server.engine, Ask({9}, 5, "s"));
  EXPECT_TRUE(session.status().ok());
  EXPECT_EQ(server.engine->Stats().queued, 3);

  server.decoder.AllowAll();
  for (int i : {0, 1, 3}) {
    EXPECT_EQ(readers[i]->Finish().tokens,
              ToyContinuation(ToyState::kRing, {i}, 100, AskedSampling()));
  }
  EXPECT_TRUE(session.Finish().status.ok());
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().queued, 0);
}

// Heap in use by the process. (A sanitizer's own heap is not counted.)
size_t HeapBytes() { return mallinfo2().uordblks; }

// Prompts of 4 MiB, which no limit counts once their calls are over.
TEST(EngineLimits, ARefusedCallLeavesNoPromptBehind) {
  ToyServer server(ToyState::kFixed, {.running = 1, .max_queue = 1});
  server.CreateSession("refused");
  server.CreateSession("cancelled");
  server.CreateSession("rolled-back");
  const std::vector<int32_t> prompt(1 << 20, 1);
  const auto freed = [before = HeapBytes()] {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (HeapBytes() > before + (1 << 20)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  {
    server.decoder.Allow(0);
    Reader running(*server.engine, Ask(prompt, 5, "rolled-back"));
    server.decoder.AwaitHeld();
    {
      Reader waits(*server.engine, Ask(prompt, 5, "cancelled"));
      EXPECT_EQ(ReasonOf(Reader(*server.engine, Ask(prompt, 5, "refused")).status()),
                "QUEUE_FULL");
      waits.stream().Cancel();
      EXPECT_TRUE(absl::IsCancelled(waits.Finish().status));
    }
    running.stream().Cancel();
    server.decoder.AllowAll();
    EXPECT_TRUE(absl::IsCancelled(running.Finish().status));
  }
  server.AwaitIdle();
  EXPECT_TRUE(freed()) << HeapBytes();
  EXPECT_EQ(server.Position("refused"), 0);
}

TEST(EngineTtl, ExpiresAfterTheLastUseByTheSteadyClock) {
  ToyServer server(ToyState::kAppend);
  Engine& engine = *server.engine;
  const auto made =
      engine.CreateSession({.id = "s", .settings = {.ttl = milliseconds(1000)}});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made->expire_time, server.clock.WallNow() + milliseconds(1000));
  server.clock.JumpWall(std::chrono::hours(24 * 365));
  server.clock.Advance(milliseconds(999));
  server.Run(Ask({1, 2}, 3, "s"));
  server.AwaitIdle();
  server.clock.JumpWall(-std::chrono::hours(24 * 400));
  server.clock.Advance(milliseconds(999));
  EXPECT_EQ(*engine.GetSession("s")->expire_time,
            server.clock.WallNow() + milliseconds(1));
  server.clock.Advance(milliseconds(1));
  EXPECT_EQ(ReasonOf(engine.GetSession("s").status()), "SESSION_EXPIRED");
  EXPECT_EQ(ReasonOf(server.Run(Ask({1}, 1, "s")).status), "SESSION_EXPIRED");
  EXPECT_TRUE(engine.ListSessions({})->sessions.empty());
  server.AwaitNoState();
  for (int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    EXPECT_EQ(
        FieldOf(
            engine.CreateSession({.settings = {.ttl = milliseconds(bad)}}).status()),
        "ttl");
  }
}

TEST(EngineTtl, AnExpiredSessionCountsNoMore) {
  ToyServer server(ToyState::kFixed, {.sessions = 1});
  ASSERT_TRUE(
      server.engine->CreateSession({.id = "a", .settings = {.ttl = milliseconds(10)}})
          .ok());
  EXPECT_FALSE(server.engine->CreateSession({.id = "b"}).ok());
  server.clock.Advance(milliseconds(10));
  server.CreateSession("b");
}

TEST(EngineTtl, ExpiredNamesAreRememberedAndFree) {
  ToyServer server(ToyState::kFixed, {.sessions = 2000});
  Engine& engine = *server.engine;
  for (int i = 0; i < 1100; ++i) {
    ASSERT_TRUE(engine
                    .CreateSession({.id = StrCat("s", i),
                                    .settings = {.ttl = milliseconds(1 + i)}})
                    .ok());
  }
  server.clock.Advance(milliseconds(1100));
  EXPECT_EQ(ReasonOf(engine.GetSession("s1099").status()), "SESSION_EXPIRED");
  EXPECT_EQ(ReasonOf(engine.GetSession("s76").status()), "SESSION_EXPIRED");
  EXPECT_EQ(ReasonOf(engine.GetSession("s75").status()), "SESSION_NOT_FOUND");
  server.CreateSession("s1099");
  EXPECT_TRUE(engine.DeleteSession("s1099").ok());
  EXPECT_EQ(ReasonOf(engine.GetSession("s1099").status()), "SESSION_NOT_FOUND");
}

TEST(EngineTtl, ARunningSessionDoesNotExpire) {
  ToyServer server(ToyState::kFixed);
  ASSERT_TRUE(
      server.engine->CreateSession({.id = "s", .settings = {.ttl = milliseconds(10)}})
          .ok());
  Reader reader(*server.engine, Ask({1}, 200, "s"));
  reader.Next();
  server.clock.Advance(milliseconds(1000));
  const auto facts = server.engine->GetSession("s");
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->state, SessionState::kRunning);
  EXPECT_TRUE(reader.Finish().status.ok());
  EXPECT_TRUE(server.engine->GetSession("s").ok());
}

TEST(EngineSessions, OneCallAtATime) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("s");
  Reader first(*server.engine, Ask({1}, 200, "s"));
  const absl::Status busy = Reader(*server.engine, Ask({2}, 1, "s")).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(busy), "SESSION_BUSY");
  EXPECT_TRUE(first.Finish().status.ok());
  // The end was taken: the session is free the same moment.
  EXPECT_TRUE(Reader(*server.engine, Ask({2}, 1, "s")).status().ok());
}

// Each step takes 10 ms of the clock.
TEST(EngineSessions, ABusySessionNamesTheTimeThatItsCallHasLeft) {
  ToyServer server(ToyState::kFixed);
  server.MeasureSteps();
  server.CreateSession("s");
  server.decoder.Allow(0);
  Reader first(*server.engine, Ask({1}, 40, "s"));
  server.decoder.AwaitHeld();
  const auto retry_after = [&] {
    const absl::Status busy = Reader(*server.engine, Ask({2}, 1, "s")).status();
    EXPECT_EQ(ReasonOf(busy), "SESSION_BUSY");
    return GetErrorDetail(busy)->retry_after.value_or(milliseconds(0));
  };
  EXPECT_NEAR(static_cast<double>(retry_after().count()), 400, 50);
  for (int i = 0; i < 30; ++i) {
    server.clock.Advance(milliseconds(10));
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();
  }
  EXPECT_NEAR(static_cast<double>(retry_after().count()), 100, 50);
  server.decoder.AllowAll();
  EXPECT_TRUE(first.Finish().status.ok());
}

TEST(EngineSessions, FreeAtOnceAfterEveryTakenEnd) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("s");
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(server.Run(Ask({1}, i % 3, "s")).status.ok());
  }
}

TEST(EngineDelete, EndsARunningCallAndFreesEverything) {
  for (const bool in_step : {false, true}) {
    ToyServer server(ToyState::kFixedAndAppend, {.sessions = 2});
    server.CreateSession("s");
    server.CreateSession("t");
    if (in_step) server.decoder.Allow(3);
    Reader reader(*server.engine, Ask(Tokens(10, 1), 1000, "s"));
    if (in_step) {
      server.decoder.AwaitHeld();
    } else {
      reader.Next();
    }
    ASSERT_TRUE(server.engine->DeleteSession("s").ok());
    EXPECT_FALSE(server.engine->GetSession("s").ok());
    // The room for it is free at once, the name too.
    server.CreateSession("s");
    EXPECT_FALSE(server.engine->CreateSession({}).ok());
    server.decoder.AllowAll();
    const absl::Status status = reader.Finish().status;
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(ReasonOf(status), "SESSION_DELETED");
    server.AwaitIdle();
    EXPECT_EQ(server.engine->Stats().state_bytes, 0);
    EXPECT_EQ(server.Run(Ask({4}, 20, "s")).tokens,
              ToyContinuation(ToyState::kFixedAndAppend, {4}, 20, AskedSampling()));
  }
}

TEST(EngineDelete, WhatWasGeneratedStillArrives) {
  ToyServer server(ToyState::kAppend);
  server.CreateSession("s");
  Reader reader(*server.engine, Ask({1}, 20, "s"));
  server.AwaitIdle();
  ASSERT_TRUE(server.engine->DeleteSession("s").ok());
  const Outcome outcome = reader.Finish();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.tokens, SizeIs(20));
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().state_bytes, 0);
}

TEST(EngineDrain, RefusesNewWorkAndFinishesOld) {
  ToyServer server(ToyState::kRing, {.running = 1, .max_queue = 5});
  Reader running(*server.engine, Ask({1}, 200));
  Reader queued(*server.engine, Ask({2}, 30));
  server.engine->Drain();
  for (const absl::Status& refused :
       {server.engine->CreateSession({}).status(), server.Run(Ask({1}, 1)).status}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ReasonOf(refused), "DRAINING");
  }
  EXPECT_FALSE(server.engine->WaitIdle(milliseconds(1)));
  EXPECT_THAT(running.Finish().tokens, SizeIs(200));
  EXPECT_THAT(queued.Finish().tokens, SizeIs(30));
  EXPECT_TRUE(server.engine->WaitIdle(kPatience));
}

TEST(EngineEnd, EndsStreamsWithUnavailableAndStreamsOutliveIt) {
  auto server =
      std::make_unique<ToyServer>(ToyState::kAppend, Engine::Options{.sessions = 2});
  server->CreateSession("s");
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(std::make_unique<Reader>(*server->engine, Ask({1}, 1000, "s")));
  readers.push_back(std::make_unique<Reader>(*server->engine, Ask({2}, 1000)));
  readers.push_back(std::make_unique<Reader>(*server->engine, Ask({3}, 1000)));
  readers[0]->Next();
  readers[1]->Next();
  server.reset();
  for (auto& reader : readers) {
    EXPECT_EQ(reader->Finish().status.code(), absl::StatusCode::kUnavailable);
    reader->stream().Cancel();
  }
}

}  // namespace
}  // namespace mnemon
