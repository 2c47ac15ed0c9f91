// SPDX-License-Identifier: MIT
// Forks, rewinds and checkpoints: each session goes on as one that was given its
// history as a prompt.
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/await_answer.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

absl::StatusOr<SessionFacts> Fork(Engine& engine, const ForkSessionRequest& request) {
  return AwaitAnswer<SessionFacts>(
      [&](auto done) { return engine.ForkSession(request, std::move(done)); });
}

absl::StatusOr<SessionFacts> Rewind(Engine& engine,
                                    const RewindSessionRequest& request) {
  return AwaitAnswer<SessionFacts>(
      [&](auto done) { return engine.RewindSession(request, std::move(done)); });
}

absl::StatusOr<CheckpointFacts> Checkpoint(Engine& engine,
                                           const CheckpointSessionRequest& request) {
  return AwaitAnswer<CheckpointFacts>(
      [&](auto done) { return engine.CheckpointSession(request, std::move(done)); });
}

class EngineForks : public testing::TestWithParam<ToyState> {
 protected:
  static Engine::Options ManySessions() { return {.sessions = 256, .running = 16}; }

  // Appends a prompt and `count` tokens to a session whose history is `history`, and
  // checks them against a call without a session.
  void Continue(const std::string& session, std::vector<int32_t>& history,
                const std::vector<int32_t>& prompt, int32_t count) {
    const Outcome outcome = server_.Run(Ask(prompt, count, session));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    history = Joined(history, prompt);
    const Outcome expected = server_.Run(Ask(history, count));
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    ASSERT_EQ(outcome.tokens, expected.tokens);
    history = Joined(history, outcome.tokens);
    ASSERT_EQ(server_.Position(session), static_cast<int64_t>(history.size()));
  }

  ToyServer server_{GetParam(), ManySessions(), 4096};
};

TEST_P(EngineForks, GoTheirOwnWays) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(45, 1), 30);
  const auto made = Fork(*server_.engine, {.session = "a", .id = "b"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->id, "b");
  EXPECT_EQ(made->parent, "a");
  EXPECT_EQ(made->position, 75);
  EXPECT_EQ(made->state, SessionState::kIdle);
  std::vector<int32_t> b = a;
  for (int round = 0; round < 2; ++round) {
    Continue("a", a, Tokens(3, 2), 40);
    Continue("b", b, Tokens(5, 3), 40);
  }
  EXPECT_EQ(server_.engine->GetSession("b")->parent, "a");
}

TEST_P(EngineForks, KeepTheStateOfTheirParents) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(300, 1), 10);
  ASSERT_TRUE(Fork(*server_.engine, {.session = "a", .id = "b"}).ok());
  const Outcome outcome = server_.Run(Ask(Tokens(2, 4), 3, "b"));
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.start->resumed_tokens, 309);
  const Outcome parent = server_.Run(Ask(Tokens(2, 4), 3, "a"));
  EXPECT_EQ(parent.start->resumed_tokens, 309);
  EXPECT_EQ(parent.tokens, outcome.tokens);
}

TEST_P(EngineForks, OfARunningSessionBeginAtItsLastDeliveredToken) {
  server_.CreateSession("a");
  const std::vector<int32_t> prompt = Tokens(20, 1);
  server_.decoder.Allow(45);
  Reader reader(*server_.engine, Ask(prompt, 120, "a"));
  while (reader.so_far().tokens.size() < 30) reader.Next();
  const absl::Status begun = server_.engine->ForkSession(
      {.session = "a", .id = "b"}, [](absl::StatusOr<SessionFacts>) {});
  ASSERT_TRUE(begun.ok());
  server_.decoder.AllowAll();
  std::vector<int32_t> b;
  // It is answered between two steps, while the call goes on.
  ASSERT_TRUE(Eventually([&] { return server_.engine->GetSession("b").ok(); }));
  const int64_t position = server_.Position("b");
  ASSERT_GE(position, 20 + 30);
  const Outcome all = reader.Finish();
  ASSERT_TRUE(all.status.ok()) << all.status;
  ASSERT_LE(position, 20 + 120);
  const auto taken = all.tokens.begin() + (position - 20);
  b = Joined(prompt, {all.tokens.begin(), taken});
  Continue("b", b, Tokens(4, 9), 30);
  std::vector<int32_t> a = Joined(prompt, all.tokens);
  Continue("a", a, Tokens(4, 9), 30);
}

TEST_P(EngineForks, OfAPromptThatIsComputedBeginBeforeIt) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(33, 1), 5);
  server_.decoder.Allow(1);
  Reader reader(*server_.engine, Ask(Tokens(400, 2), 5, "a"));
  server_.decoder.AwaitHeld();
  const absl::Status begun = server_.engine->ForkSession(
      {.session = "a", .id = "b"}, [](absl::StatusOr<SessionFacts>) {});
  ASSERT_TRUE(begun.ok());
  server_.decoder.AllowAll();  // its tokens are not read, so none is delivered
  ASSERT_TRUE(Eventually([&] { return server_.engine->GetSession("b").ok(); }));
  EXPECT_EQ(server_.Position("b"), 38);
  ASSERT_TRUE(reader.Finish().status.ok());
  std::vector<int32_t> b = a;
  Continue("b", b, Tokens(3, 5), 20);
}

// The runner learns that a consumer has taken the end of a call only with its next
// round, and a rewind may be a task of the round before.
TEST_P(EngineForks, ARewindBesideTheTakingOfAnEndGivesTheSlotBack) {
  server_.CreateSession("a");
  for (int round = 0; round < 100; ++round) {
    Reader reader(*server_.engine, Ask(Tokens(8, round), 2, "a"));
    while (server_.engine->Stats().models[0].running > 0) std::this_thread::yield();
    std::promise<absl::Status> rewound;
    const auto done = [&](const absl::StatusOr<SessionFacts>& facts) {
      rewound.set_value(facts.status());
    };
    std::thread taker([&] {
      while (!reader.stream().Take().finished) std::this_thread::yield();
    });
    const absl::Status begun =
        server_.engine->RewindSession({.session = "a", .target = 4}, done);
    if (begun.ok()) rewound.get_future().wait();
    taker.join();
    server_.AwaitIdle();
    // No call holds a state.
    ASSERT_EQ(server_.engine->Stats().models[0].running_state_bytes, 0);
    if (server_.Position("a") > 4) {
      ASSERT_TRUE(Rewind(*server_.engine, {.session = "a", .target = 4}).ok());
    }
  }
}

TEST_P(EngineForks, BeginAnywhereInTheHistory) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(150, 1), 30);
  for (const int64_t position : {1, 15, 16, 17, 100, 178, 179, 180}) {
    const std::string id = StrCat("b", position);
    ASSERT_TRUE(
        Fork(*server_.engine, {.session = "a", .id = id, .position = position}).ok());
    std::vector<int32_t> b(a.begin(), a.begin() + position);
    Continue(id, b, Tokens(2, 7), 10);
  }
  for (const int64_t position : {int64_t{-1}, int64_t{181}, INT64_MAX}) {
    const auto made = Fork(*server_.engine, {.session = "a", .position = position});
    EXPECT_EQ(made.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(ReasonOf(made.status()), "BEYOND_HISTORY");
  }
  ASSERT_TRUE(Fork(*server_.engine, {.session = "a", .id = "e", .position = 0}).ok());
  EXPECT_EQ(ReasonOf(server_.Run(Ask({}, 3, "e")).status), "INVALID_VALUE");
}

TEST_P(EngineForks, ARewindForgetsTheNewestTokens) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(150, 1), 60);
  for (const int64_t position : {209, 180, 33, 16, 15, 1}) {
    const auto facts =
        Rewind(*server_.engine, {.session = "a", .target = position, .etag = ""});
    ASSERT_TRUE(facts.ok()) << facts.status();
    EXPECT_EQ(facts->position, position);
    a.resize(static_cast<size_t>(position));
    Continue("a", a, Tokens(2, 5), 12);
  }
  const auto facts =
      Rewind(*server_.engine, {.session = "a", .target = int64_t{0}, .etag = ""});
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->position, 0);
  a.clear();
  Continue("a", a, Tokens(20, 6), 12);
  EXPECT_EQ(ReasonOf(Rewind(*server_.engine,
                            {.session = "a", .target = int64_t{33}, .etag = ""})
                         .status()),
            "BEYOND_HISTORY");
}

TEST_P(EngineForks, ACheckpointComesBackWhateverCameBetween) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(600, 1), 20);
  const auto made =
      Checkpoint(*server_.engine, {.session = "a", .id = "c", .request_id = ""});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->position, 620);
  const std::vector<int32_t> kept = a;
  Continue("a", a, Tokens(2, 2), 30);
  ASSERT_TRUE(
      Rewind(*server_.engine, {.session = "a", .target = int64_t{7}, .etag = ""}).ok());
  a.resize(7);
  Continue("a", a, Tokens(700, 3), 30);
  const auto facts =
      Rewind(*server_.engine, {.session = "a", .target = "c", .etag = ""});
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->position, 620);
  ASSERT_EQ(facts->checkpoints.size(), 1u);
  EXPECT_EQ(facts->checkpoints[0].id, "c");
  EXPECT_GT(facts->checkpoints[0].size_bytes, 0);
  a = kept;
  const Outcome outcome = server_.Run(Ask(Tokens(1, 8), 3, "a"));
  EXPECT_EQ(outcome.start->resumed_tokens, 619);
  a = Joined(Joined(a, Tokens(1, 8)), outcome.tokens);
  Continue("a", a, Tokens(2, 5), 12);
  EXPECT_EQ(
      ReasonOf(Rewind(*server_.engine, {.session = "a", .target = "d", .etag = ""})
                   .status()),
      "CHECKPOINT_NOT_FOUND");
}

// A rewind past a checkpoint recomputes only what comes after the checkpoint.
TEST_P(EngineForks, ARewindStartsFromTheNearestCheckpoint) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(500, 1), 10);
  ASSERT_TRUE(
      Checkpoint(*server_.engine, {.session = "a", .id = "c", .request_id = ""}).ok());
  Continue("a", a, Tokens(500, 2), 10);
  ASSERT_TRUE(
      Rewind(*server_.engine, {.session = "a", .target = int64_t{530}, .etag = ""})
          .ok());
  a.resize(530);
  const Outcome outcome = server_.Run(Ask(Tokens(1, 8), 3, "a"));
  EXPECT_GE(outcome.start->resumed_tokens, 509);
  a = Joined(Joined(a, Tokens(1, 8)), outcome.tokens);
  Continue("a", a, Tokens(2, 5), 12);
}

// A checkpoint after the place where the histories diverge is of no use.
TEST_P(EngineForks, ARewindLeavesCheckpointsOfOtherHistoriesAlone) {
  server_.CreateSession("a");
  std::vector<int32_t> a;
  Continue("a", a, Tokens(500, 1), 10);
  ASSERT_TRUE(
      Checkpoint(*server_.engine, {.session = "a", .id = "c", .request_id = ""}).ok());
  ASSERT_TRUE(
      Rewind(*server_.engine, {.session = "a", .target = int64_t{300}, .etag = ""})
          .ok());
  a.resize(300);
  Continue("a", a, Tokens(600, 2), 10);
  ASSERT_TRUE(
      Rewind(*server_.engine, {.session = "a", .target = int64_t{530}, .etag = ""})
          .ok());
  a.resize(530);
  Continue("a", a, Tokens(2, 5), 12);
}

TEST_P(EngineForks, RandomCallsEqualOnesWithoutSessions) {
  std::mt19937 random(11);
  std::map<std::string, std::vector<int32_t>> sessions;
  std::map<std::pair<std::string, std::string>, std::vector<int32_t>> kept;
  int made = 0;
  const auto draw = [&](size_t below) {
    return static_cast<int64_t>(random() % below);
  };
  for (int call = 0; call < 150; ++call) {
    SCOPED_TRACE(call);
    if (sessions.empty() || (draw(8) == 0 && sessions.size() < 12)) {
      const std::string id = StrCat("s", ++made);
      server_.CreateSession(id);
      sessions[id];
      continue;
    }
    auto at = sessions.begin();
    std::advance(at, draw(sessions.size()));
    const std::string id = at->first;
    std::vector<int32_t>& history = at->second;
    const auto size = static_cast<int64_t>(history.size());
    switch (draw(8)) {
      case 0:
      case 1:
      case 2:
        if (history.size() > 3000) break;
        Continue(id, history, Tokens(1 + draw(draw(4) == 0 ? 500 : 10), call),
                 static_cast<int32_t>(draw(40)));
        break;
      case 3: {
        const std::string child = StrCat("s", ++made);
        std::optional<int64_t> position;
        if (draw(2) == 0) position = draw(static_cast<size_t>(size) + 1);
        ASSERT_TRUE(
            Fork(*server_.engine, {.session = id, .id = child, .position = position})
                .ok());
        sessions[child] = {history.begin(), history.begin() + position.value_or(size)};
        break;
      }
      case 4: {
        const int64_t target = draw(static_cast<size_t>(size) + 1);
        ASSERT_TRUE(
            Rewind(*server_.engine, {.session = id, .target = target, .etag = ""})
                .ok());
        history.resize(static_cast<size_t>(target));
        break;
      }
      case 5: {
        const std::string name = StrCat("c", call);
        ASSERT_TRUE(
            Checkpoint(*server_.engine, {.session = id, .id = name, .request_id = ""})
                .ok());
        kept[{id, name}] = history;
        break;
      }
      case 6: {
        const auto checkpoint = kept.lower_bound({id, ""});
        if (checkpoint == kept.end() || checkpoint->first.first != id) break;
        ASSERT_TRUE(
            Rewind(*server_.engine,
                   {.session = id, .target = checkpoint->first.second, .etag = ""})
                .ok());
        history = checkpoint->second;
        break;
      }
      case 7:
        if (draw(4) != 0) break;
        ASSERT_TRUE(server_.engine->DeleteSession(id).ok());
        std::erase_if(kept, [&](const auto& entry) { return entry.first.first == id; });
        sessions.erase(at);
        break;
    }
    if (HasFailure()) return;
  }
  for (const auto& [id, history] : sessions) {
    EXPECT_EQ(server_.Position(id), static_cast<int64_t>(history.size()));
    ASSERT_TRUE(server_.engine->DeleteSession(id).ok());
  }
  server_.AwaitIdle();
  EXPECT_EQ(server_.engine->Stats().state_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(States, EngineForks, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

TEST(EngineForkCalls, ARepeatedRequestMakesOneSession) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask({1, 2, 3}, 4, "a")).status.ok());
  const std::string id = "00000000-0000-4000-8000-000000000001";
  const auto one = Fork(*server.engine, {.session = "a", .request_id = id});
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(server.Run(Ask({1}, 4, "a")).status.ok());
  const auto two = Fork(*server.engine, {.session = "a", .request_id = id});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(one->id, two->id);
  EXPECT_EQ(two->position, 7);
  const auto other =
      Fork(*server.engine, {.session = "a", .position = 1, .request_id = id});
  EXPECT_EQ(ReasonOf(other.status()), "REQUEST_ID_REUSED");
  const auto taken = Fork(*server.engine, {.session = "a", .id = one->id});
  EXPECT_EQ(ReasonOf(taken.status()), "SESSION_EXISTS");
  EXPECT_EQ(ReasonOf(Fork(*server.engine, {.session = "x"}).status()),
            "SESSION_NOT_FOUND");
  const auto kept =
      Checkpoint(*server.engine, {.session = "a", .id = "", .request_id = id});
  ASSERT_TRUE(kept.ok());
  const auto again =
      Checkpoint(*server.engine, {.session = "a", .id = "", .request_id = id});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->id, kept->id);
  EXPECT_EQ(server.engine->GetSession("a")->checkpoints.size(), 1u);
  EXPECT_EQ(
      ReasonOf(Checkpoint(*server.engine, {.session = "a", .id = "z", .request_id = id})
                   .status()),
      "REQUEST_ID_REUSED");
  EXPECT_EQ(ReasonOf(Checkpoint(*server.engine,
                                {.session = "a", .id = kept->id, .request_id = ""})
                         .status()),
            "CHECKPOINT_EXISTS");
}

TEST(EngineForkCalls, AnEtagChangesWithEveryChange) {
  ToyServer server(ToyState::kAppend);
  server.CreateSession("a");
  std::string etag = server.engine->GetSession("a")->etag;
  EXPECT_EQ(server.engine->GetSession("a")->etag, etag);
  const auto changed = [&] {
    const std::string now = server.engine->GetSession("a")->etag;
    return std::exchange(etag, now) != now;
  };
  ASSERT_TRUE(server.Run(Ask({1, 2, 3}, 4, "a")).status.ok());
  EXPECT_TRUE(changed());
  EXPECT_FALSE(changed());
  ASSERT_TRUE(
      Checkpoint(*server.engine, {.session = "a", .id = "c", .request_id = ""}).ok());
  EXPECT_TRUE(changed());
  const std::string old = etag;
  const auto rewound =
      Rewind(*server.engine, {.session = "a", .target = int64_t{2}, .etag = old});
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  EXPECT_NE(rewound->etag, old);
  EXPECT_EQ(ReasonOf(Rewind(*server.engine,
                            {.session = "a", .target = int64_t{1}, .etag = old})
                         .status()),
            "ETAG_MISMATCH");
  EXPECT_EQ(server.Position("a"), 2);
  EXPECT_EQ(ReasonOf(server.engine->DeleteSession("a", old)), "ETAG_MISMATCH");
  EXPECT_TRUE(server.engine->DeleteSession("a", rewound->etag).ok());
  server.CreateSession("a");
  EXPECT_NE(server.engine->GetSession("a")->etag, rewound->etag);
}

TEST(EngineForkCalls, ARewindWaitsForNobody) {
  ToyServer server(ToyState::kRing);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask({1, 2, 3}, 4, "a")).status.ok());
  server.decoder.Allow(1);
  Reader reader(*server.engine, Ask({4}, 50, "a"));
  server.decoder.AwaitHeld();
  std::promise<absl::Status> answer;
  ASSERT_TRUE(server.engine
                  ->RewindSession({.session = "a", .target = int64_t{2}, .etag = ""},
                                  [&](absl::StatusOr<SessionFacts> made) {
                                    answer.set_value(made.status());
                                  })
                  .ok());
  server.decoder.AllowAll();  // what is not read holds the session
  const absl::Status status = answer.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(status), "SESSION_BUSY");
  EXPECT_TRUE(reader.Finish().status.ok());
  EXPECT_EQ(server.Position("a"), 58);
}

TEST(EngineForkCalls, CheckpointsAreBounded) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("a");
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(
        Checkpoint(*server.engine, {.session = "a", .id = "", .request_id = ""}).ok());
  }
  EXPECT_EQ(
      ReasonOf(Checkpoint(*server.engine, {.session = "a", .id = "", .request_id = ""})
                   .status()),
      "CHECKPOINT_LIMIT");
}

// Their states go where those of sessions are needed, and are computed again.
TEST(EngineForkCalls, StatesOfCheckpointsGiveWay) {
  Engine::Options options{.sessions = 64, .running = 2};
  options.state_bytes = 200 << 10;
  ToyServer server(ToyState::kAppend, options, 256);
  server.CreateSession("a");
  ASSERT_TRUE(server.Run(Ask(Tokens(200, 1), 4, "a")).status.ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Checkpoint(*server.engine,
                           {.session = "a", .id = StrCat("c", i), .request_id = ""})
                    .ok());
    ASSERT_TRUE(
        Rewind(*server.engine, {.session = "a", .target = int64_t{1 + i}, .etag = ""})
            .ok());
    const Outcome outcome = server.Run(Ask(Tokens(200, i), 4, "a"));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(
        Rewind(*server.engine, {.session = "a", .target = StrCat("c", i), .etag = ""})
            .ok());
    const Outcome outcome = server.Run(Ask({3}, 4, "a"));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  }
}

TEST(EngineForkCalls, AForkExpiresByItsOwnTtl) {
  ToyServer server(ToyState::kFixed);
  ASSERT_TRUE(
      server.engine->CreateSession({.id = "a", .settings = {.ttl = milliseconds(5000)}})
          .ok());
  ASSERT_TRUE(Fork(*server.engine, {.session = "a", .id = "b"}).ok());
  ASSERT_TRUE(Fork(*server.engine,
                   {.session = "a", .id = "c", .settings = {.ttl = milliseconds(9000)}})
                  .ok());
  server.clock.Advance(milliseconds(6000));
  EXPECT_EQ(ReasonOf(server.engine->GetSession("a").status()), "SESSION_EXPIRED");
  EXPECT_EQ(ReasonOf(server.engine->GetSession("b").status()), "SESSION_EXPIRED");
  EXPECT_TRUE(server.engine->GetSession("c").ok());
}

TEST(EngineForkCalls, ADrainedEngineForksNothing) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("a");
  server.engine->Drain();
  EXPECT_EQ(ReasonOf(Fork(*server.engine, {.session = "a"}).status()), "DRAINING");
}

}  // namespace
}  // namespace mnemon
