// SPDX-License-Identifier: MIT
// Sessions that leave one engine and go on in another, and proofs of their states.
#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/snapshots/snapshot.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

absl::StatusOr<ExportedSession> Export(Engine& engine, const std::string& id) {
  return AwaitAnswer<ExportedSession>(
      [&](auto done) { return engine.ExportSession(id, std::move(done)); });
}

absl::StatusOr<SessionFacts> Import(Engine& engine, ImportSessionRequest request) {
  return AwaitAnswer<SessionFacts>([&](auto done) {
    return engine.ImportSession(std::move(request), std::move(done));
  });
}

absl::StatusOr<VerifiedSession> Verify(Engine& engine, const std::string& id,
                                       bool replay) {
  return AwaitAnswer<VerifiedSession>([&](auto done) {
    return engine.VerifySession({.session = id, .replay = replay}, std::move(done));
  });
}

constexpr SnapshotLimits kLimits{.tokens = 1 << 20, .state_bytes = 1 << 30};

class EngineSnapshots : public testing::TestWithParam<ToyState> {};

TEST_P(EngineSnapshots, GoOnElsewhereWithTheirState) {
  ToyServer here(GetParam(), {}, 4096), there(GetParam(), {}, 4096);
  for (const int64_t length : {1, 2, 16, 17, 33, 300, 1000}) {
    SCOPED_TRACE(length);
    const std::string id = StrCat("s", length);
    here.CreateSession(id);
    const std::vector<int32_t> prompt = Tokens(length, 1);
    const Outcome outcome = here.Run(Ask(prompt, 20, id));
    ASSERT_TRUE(outcome.status.ok());
    const auto exported = Export(*here.engine, id);
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(exported->facts.id, id);
    EXPECT_EQ(exported->facts.position, length + 20);
    const auto imported =
        Import(*there.engine, {.id = id, .snapshot = exported->snapshot});
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_EQ(imported->position, length + 20);
    EXPECT_FALSE(imported->rebuilt);
    const auto again = Export(*there.engine, id);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->snapshot, exported->snapshot);
    const Outcome a = here.Run(Ask(Tokens(3, 2), 30, id));
    const Outcome b = there.Run(Ask(Tokens(3, 2), 30, id));
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(b.start->resumed_tokens, length + 19);
    ASSERT_TRUE(here.engine->DeleteSession(id).ok());
    ASSERT_TRUE(there.engine->DeleteSession(id).ok());
  }
  here.AwaitIdle();
  there.AwaitIdle();
  EXPECT_EQ(here.engine->Stats().state_bytes, 0);
  EXPECT_EQ(there.engine->Stats().state_bytes, 0);
  const auto nothing = [](const MemoryStats& memory) {
    return memory.queue == 0 && memory.output == 0;
  };
  EXPECT_TRUE(AwaitMemory(*here.engine, nothing));
  EXPECT_TRUE(AwaitMemory(*there.engine, nothing));
}

TEST_P(EngineSnapshots, OfARunningSessionHoldWhatWasDelivered) {
  ToyServer server(GetParam(), {}, 4096);
  server.CreateSession("a");
  server.decoder.Allow(45);
  Reader reader(*server.engine, Ask(Tokens(20, 1), 120, "a"));
  while (reader.so_far().tokens.size() < 30) reader.Next();
  const auto exported = AwaitAnswer<ExportedSession>([&](auto done) {
    const absl::Status begun = server.engine->ExportSession("a", std::move(done));
    server.decoder.AllowAll();
    return begun;
  });
  ASSERT_TRUE(exported.ok()) << exported.status();
  const Outcome all = reader.Finish();
  const auto header = ReadSnapshotHeader(exported->snapshot);
  ASSERT_TRUE(header.ok());
  ASSERT_GE(header->tokens, 50);
  ASSERT_LE(header->tokens, 140);
  ASSERT_TRUE(Import(*server.engine, {.id = "b", .snapshot = exported->snapshot}).ok());
  const std::vector<int32_t> history = Joined(
      Tokens(20, 1), {all.tokens.begin(), all.tokens.begin() + (header->tokens - 20)});
  EXPECT_EQ(server.Run(Ask(Tokens(2, 3), 30, "b")).tokens,
            server.Run(Ask(Joined(history, Tokens(2, 3)), 30)).tokens);
}

TEST_P(EngineSnapshots, AreProvenByAReplay) {
  ToyServer server(GetParam(), {}, 4096);
  server.CreateSession("a");
  const auto empty = Verify(*server.engine, "a", true);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->stored_form_valid);
  EXPECT_EQ(empty->replay_equal, true);
  ASSERT_TRUE(server.Run(Ask(Tokens(333, 1), 50, "a")).status.ok());
  const auto quick = Verify(*server.engine, "a", false);
  ASSERT_TRUE(quick.ok());
  EXPECT_TRUE(quick->stored_form_valid);
  EXPECT_FALSE(quick->replay_equal.has_value());
  const auto whole = Verify(*server.engine, "a", true);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->replay_equal, true);
  EXPECT_EQ(whole->position, 383);
  EXPECT_GT(whole->state_size_bytes, 0);
  EXPECT_EQ(whole->first_difference, "");
}

// An image holds what the next token sees: of what comes before, a ring has not all.
// It reports progress every second while it runs.
TEST_P(EngineSnapshots, AReplayMayTakeLong) {
  ToyServer server(GetParam(), {}, 4096);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(Tokens(1500, 1), 3, "a")).status.ok());
  server.decoder.Allow(0);
  std::promise<absl::StatusOr<VerifiedSession>> told;
  auto verified = told.get_future();
  ASSERT_TRUE(server.engine
                  ->VerifySession({.session = "a", .replay = true},
                                  [&](auto outcome) { told.set_value(outcome); })
                  .ok());
  for (int step = 0; step < 3; ++step) {
    server.decoder.AwaitHeld();
    server.clock.Advance(std::chrono::seconds(2));
    server.decoder.Allow(1);
  }
  server.decoder.AllowAll();
  const auto outcome = verified.get();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->replay_equal.value_or(false)) << outcome->first_difference;
  EXPECT_TRUE(server.Run(Ask({1}, 3, "a")).status.ok());
}

TEST_P(EngineSnapshots, CanBeRewoundAfterAnImport) {
  ToyServer server(GetParam(), {}, 4096);
  const std::vector<int32_t> history = Tokens(60, 1);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(history, 0, "a")).status.ok());
  const auto exported = Export(*server.engine, "a");
  ASSERT_TRUE(exported.ok());
  for (int64_t position = 59; position > 20; --position) {
    SCOPED_TRACE(position);
    ASSERT_TRUE(
        Import(*server.engine, {.id = "b", .snapshot = exported->snapshot}).ok());
    const auto rewound = AwaitAnswer<SessionFacts>([&](auto done) {
      return server.engine->RewindSession(
          {.session = "b", .target = position, .etag = ""}, std::move(done));
    });
    ASSERT_TRUE(rewound.ok()) << rewound.status();
    const std::vector<int32_t> left(history.begin(), history.begin() + position);
    EXPECT_EQ(server.Run(Ask({5}, 8, "b")).tokens,
              server.Run(Ask(Joined(left, {5}), 8)).tokens);
    EXPECT_EQ(Verify(*server.engine, "b", true)->replay_equal, true);
    ASSERT_TRUE(server.engine->DeleteSession("b").ok());
  }
}

// One number that is not as the history makes it.
TEST_P(EngineSnapshots, AForgedStateIsFoundByAReplayAlone) {
  ToyServer server(GetParam(), {}, 4096);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(Tokens(77, 1), 5, "a")).status.ok());
  const auto exported = Export(*server.engine, "a");
  ASSERT_TRUE(exported.ok());
  auto snapshot = DecodeSnapshot(exported->snapshot, kLimits);
  ASSERT_TRUE(snapshot.ok());
  snapshot->state.back() += 0.5f;
  const auto forged = EncodeSnapshot(*snapshot);
  ASSERT_TRUE(forged.ok());
  ASSERT_TRUE(Import(*server.engine, {.id = "b", .snapshot = *forged}).ok());
  const auto quick = Verify(*server.engine, "b", false);
  ASSERT_TRUE(quick.ok());
  EXPECT_TRUE(quick->stored_form_valid);
  const auto whole = Verify(*server.engine, "b", true);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->replay_equal, false);
  EXPECT_EQ(whole->first_difference, snapshot->entries.back().name);
}

TEST_P(EngineSnapshots, OfOtherNumericsAreComputedAgain) {
  ToyServer server(GetParam(), {}, 4096);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(Tokens(77, 1), 5, "a")).status.ok());
  const auto exported = Export(*server.engine, "a");
  ASSERT_TRUE(exported.ok());
  auto snapshot = DecodeSnapshot(exported->snapshot, kLimits);
  ASSERT_TRUE(snapshot.ok());
  snapshot->numerics_id = "older";
  for (float& number : snapshot->state) number += 1;  // what they would have made of it
  const auto made =
      Import(*server.engine, {.id = "b", .snapshot = *EncodeSnapshot(*snapshot)});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->rebuilt);
  EXPECT_EQ(made->position, 82);
  const Outcome a = server.Run(Ask(Tokens(2, 3), 9, "a"));
  const Outcome b = server.Run(Ask(Tokens(2, 3), 9, "b"));
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(b.start->resumed_tokens, 0);
  EXPECT_TRUE(server.engine->GetSession("b")->rebuilt);
}

TEST_P(EngineSnapshots, OfAnEmptySessionIsOneToo) {
  ToyServer server(GetParam());
  server.CreateSession("a");
  const auto exported = Export(*server.engine, "a");
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto made = Import(*server.engine, {.id = "b", .snapshot = exported->snapshot});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->position, 0);
  EXPECT_FALSE(made->rebuilt);
  EXPECT_EQ(Export(*server.engine, "b")->snapshot, exported->snapshot);
  EXPECT_EQ(server.Run(Ask({3, 4}, 9, "b")).tokens, server.Run(Ask({3, 4}, 9)).tokens);
}

// Whether its snapshot is damaged, cut, empty, or of another session.
TEST_P(EngineSnapshots, AFailedImportLeavesALiveSessionAsItWas) {
  ToyServer server(GetParam(), {}, 4096);
  const std::vector<int32_t> history = Tokens(70, 1);
  for (const char* id : {"a", "other"}) {
    server.CreateSession(id);
    ASSERT_TRUE(server.Run(Ask(history, 0, id)).status.ok());
  }
  ASSERT_TRUE(server.Run(Ask({1}, 5, "other")).status.ok());
  const std::string good = Export(*server.engine, "other")->snapshot;
  std::string damaged = good;
  damaged.back() ^= 1;
  const std::string before = Export(*server.engine, "a")->snapshot;
  for (const std::string& snapshot :
       {good, damaged, good.substr(0, good.size() / 2), std::string()}) {
    EXPECT_FALSE(Import(*server.engine, {.id = "a", .snapshot = snapshot}).ok());
    EXPECT_EQ(Export(*server.engine, "a")->snapshot, before);
  }
  const Outcome outcome = server.Run(Ask({2}, 20, "a"));
  EXPECT_EQ(outcome.start->resumed_tokens, 69);
  EXPECT_EQ(outcome.tokens, server.Run(Ask(Joined(history, {2}), 20)).tokens);
}

INSTANTIATE_TEST_SUITE_P(States, EngineSnapshots, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

TEST(EngineSnapshotCalls, ADamagedSnapshotMakesNothing) {
  ToyServer server(ToyState::kFixedAndRing);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(Tokens(50, 1), 5, "a")).status.ok());
  const std::string good = Export(*server.engine, "a")->snapshot;
  for (size_t at = 0; at < good.size(); at += 61) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    const auto made = Import(*server.engine, {.id = "b", .snapshot = bad});
    ASSERT_EQ(ReasonOf(made.status()), "SNAPSHOT_DAMAGED") << at;
    ASSERT_FALSE(
        Import(*server.engine, {.id = "b", .snapshot = good.substr(0, at)}).ok());
  }
  EXPECT_EQ(ReasonOf(server.engine->GetSession("b").status()), "SESSION_NOT_FOUND");
  EXPECT_EQ(server.engine->Stats().sessions, 1);
  EXPECT_TRUE(Import(*server.engine, {.id = "b", .snapshot = good}).ok());
  EXPECT_EQ(ReasonOf(Import(*server.engine, {.id = "b", .snapshot = good}).status()),
            "SESSION_EXISTS");
  server.AwaitIdle();
}

TEST(EngineSnapshotCalls, WhatDoesNotFitTheModelIsRefused) {
  ToyServer server(ToyState::kAppend, {}, 64);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(Tokens(20, 1), 5, "a")).status.ok());
  const auto good = DecodeSnapshot(Export(*server.engine, "a")->snapshot, kLimits);
  ASSERT_TRUE(good.ok());
  const auto import = [&](const auto& change) {
    Snapshot snapshot = *good;
    change(snapshot);
    const auto bytes = EncodeSnapshot(snapshot);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return Import(*server.engine, {.id = "b", .snapshot = *bytes}).status();
  };
  EXPECT_EQ(ReasonOf(import([](Snapshot& s) { s.model_id = "other"; })),
            "MODEL_FINGERPRINT");
  EXPECT_EQ(ReasonOf(import([](Snapshot& s) { s.tokens[3] = 1 << 20; })),
            "INVALID_VALUE");
  EXPECT_EQ(ReasonOf(import([](Snapshot& s) { s.tokens.resize(66, 1); })),
            "CONTEXT_LIMIT");
  EXPECT_EQ(ReasonOf(import([](Snapshot& s) { s.session = "{\"ttl_ms\": -4}"; })),
            "SNAPSHOT_DAMAGED");
  EXPECT_EQ(server.engine->Stats().sessions, 1);
}

TEST(EngineSnapshotCalls, ATtlIsTheSnapshotsUnlessOneIsNamed) {
  ToyServer server(ToyState::kFixed);
  ASSERT_TRUE(
      server.engine->CreateSession({.id = "a", .settings = {.ttl = milliseconds(5000)}})
          .ok());
  ASSERT_TRUE(server.Run(Ask({1, 2}, 3, "a")).status.ok());
  const std::string snapshot = Export(*server.engine, "a")->snapshot;
  const std::string request = "00000000-0000-4000-8000-000000000009";
  const auto b =
      Import(*server.engine, {.id = "b", .request_id = request, .snapshot = snapshot});
  ASSERT_TRUE(b.ok());
  const auto again =
      Import(*server.engine, {.id = "b", .request_id = request, .snapshot = snapshot});
  EXPECT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(
      Import(*server.engine,
             {.id = "c", .settings = {.ttl = milliseconds(9000)}, .snapshot = snapshot})
          .ok());
  server.clock.Advance(milliseconds(6000));
  EXPECT_EQ(ReasonOf(server.engine->GetSession("b").status()), "SESSION_EXPIRED");
  EXPECT_TRUE(server.engine->GetSession("c").ok());
}

TEST(EngineSnapshotCalls, TransfersAreBoundedAndEndWithTheEngine) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask({1, 2}, 3, "a")).status.ok());
  server.decoder.Allow(1);
  Reader reader(*server.engine, Ask({1}, 50, "a"));
  server.decoder.AwaitHeld();
  // No step ends, so no export begins.
  int answers = 0;
  std::mutex mutex;
  for (int i = 0; i < Engine::kTransfers; ++i) {
    ASSERT_TRUE(server.engine
                    ->ExportSession("a",
                                    [&](absl::StatusOr<ExportedSession>) {
                                      std::lock_guard lock(mutex);
                                      ++answers;
                                    })
                    .ok());
  }
  EXPECT_EQ(ReasonOf(Export(*server.engine, "a").status()), "TRANSFER_LIMIT");
  server.decoder.AllowAll();
  server.engine.reset();
  EXPECT_EQ(answers, Engine::kTransfers);
}

}  // namespace
}  // namespace mnemon
