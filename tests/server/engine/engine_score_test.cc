// SPDX-License-Identifier: MIT
// Engine::Score: scores of given tokens, on fresh states and on sessions.
#include <random>

#include "base/status_macros.h"
#include "model/sampling/logprobs.h"
#include "tests/fakes/patience.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Parts = std::vector<std::vector<int32_t>>;

Scores Score(Engine& engine, const ScoreRequest& request, const Parts& parts) {
  Scorer scorer(engine, request);
  if (!scorer.status().ok()) return {.status = scorer.status()};
  for (const auto& part : parts) {
    if (absl::Status status = scorer.Append(part); !status.ok()) {
      scorer.call().stream->Cancel();
      return {.status = status};
    }
  }
  return scorer.Finish();
}

// The definition: scores of the tokens from `from` on, with the history computed token
// by token by a separate decoder.
std::vector<TokenLogprobs> Slow(ToyState state, const std::vector<int32_t>& history,
                                size_t from, const CandidateChoice& choice) {
  ToyDecoder decoder(state);
  auto arena = StateArena::Create(decoder.spec(), {.slots = 1});
  const int32_t slot = *(*arena)->Acquire();
  std::vector<float> logits(ToyDecoder::kVocab);
  SamplerScratch scratch;
  std::vector<TokenLogprobs> scored;
  for (size_t i = 0; i + 1 < history.size(); ++i) {
    const Segment segment{.slot = slot,
                          .position = static_cast<int64_t>(i),
                          .tokens = std::span(&history[i], 1)};
    EXPECT_TRUE(decoder.Step({&segment, 1}, **arena, logits.data()).ok());
    (*arena)->SetFloor(slot, static_cast<int64_t>(i) + 1);
    if (i + 1 < from) continue;
    scored.push_back(*ScoreToken(logits, history[i + 1], choice, scratch));
  }
  return scored;
}

struct EngineScore : testing::TestWithParam<ToyState> {
  ToyServer server{GetParam()};
};

TEST_P(EngineScore, ScoresWhateverThePartsAre) {
  const std::vector<int32_t> text = Tokens(300, 5);
  const CandidateChoice choice{.most_likely = 3, .ids = {39}};
  const auto expected = Slow(GetParam(), text, 1, choice);
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    Parts parts;
    for (size_t at = 0; at < text.size();) {
      const size_t most[] = {1, 3, 70, 300, 300};
      const size_t count =
          std::min<size_t>(text.size() - at, random() % (most[round] + 1));
      parts.emplace_back(text.begin() + at, text.begin() + at + count);
      at += count;
    }
    const Scores got = Score(*server.engine, {.candidates = choice}, parts);
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.first_index, 1);
    EXPECT_EQ(got.tokens, expected);
  }
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().state_bytes, 0);
}

TEST_P(EngineScore, ADryRunLeavesTheSessionAsItWas) {
  server.CreateSession("s");
  const Outcome first = server.Run(Ask({1, 2, 3}, 40, "s"));
  const std::vector<int32_t> history = Joined({1, 2, 3}, first.tokens);
  const std::vector<int32_t> text = Tokens(90, 8);
  server.AwaitIdle();
  const auto before = server.engine->GetSession("s");
  for (int round = 0; round < 2; ++round) {
    const Scores got =
        Score(*server.engine, {.session = "s"},
              {{text.begin(), text.begin() + 17}, {text.begin() + 17, text.end()}});
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.first_index, static_cast<int64_t>(history.size()));
    EXPECT_EQ(got.tokens, Slow(GetParam(), Joined(history, text), history.size(), {}));
  }
  server.AwaitIdle();
  const auto after = server.engine->GetSession("s");
  EXPECT_EQ(after->position, before->position);
  EXPECT_EQ(after->state_size_bytes, before->state_size_bytes);
  EXPECT_EQ(server.Run(Ask({}, 30, "s")).tokens,
            ToyContinuation(GetParam(), history, 30, AskedSampling()));
}

TEST_P(EngineScore, TheSessionGoesOnWhileADryRunIsOpen) {
  server.CreateSession("s");
  const std::vector<int32_t> history = Tokens(20, 3);
  server.Run(Ask(history, 0, "s"));
  server.AwaitIdle();
  Scorer scorer(*server.engine, {.session = "s"});
  ASSERT_TRUE(scorer.Append(Tokens(30, 4)).ok());
  EXPECT_EQ(server.Run(Ask({}, 30, "s")).tokens,
            ToyContinuation(GetParam(), history, 30, AskedSampling()));
  ASSERT_TRUE(scorer.Append(Tokens(30, 9)).ok());
  const std::vector<int32_t> all =
      Joined(Joined(history, Tokens(30, 4)), Tokens(30, 9));
  EXPECT_EQ(scorer.Finish().tokens, Slow(GetParam(), all, history.size(), {}));
}

TEST_P(EngineScore, ACommittedTextIsHistory) {
  server.CreateSession("s");
  const std::vector<int32_t> text = Tokens(90, 8);
  const Scores got = Score(*server.engine, {.session = "s", .commit = true},
                           {{text[0]}, {text.begin() + 1, text.end()}});
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.tokens, Slow(GetParam(), text, 1, {}));
  EXPECT_EQ(server.Position("s"), 90);
  EXPECT_EQ(server.Run(Ask({4}, 30, "s")).tokens,
            ToyContinuation(GetParam(), Joined(text, {4}), 30, AskedSampling()));
}

// Wherever it ends, all of a commit joins the session, or nothing.
TEST_P(EngineScore, ACancelledCommitLeavesTheSessionAsItWas) {
  std::mt19937 random(3);
  server.CreateSession("s");
  std::vector<int32_t> history;
  for (int round = 0; round < 24; ++round) {
    const std::vector<int32_t> text = Tokens(1 + random() % 90, round);
    const bool whole = round % 4 == 3;
    {
      Scorer scorer(*server.engine, {.session = "s", .commit = true});
      ASSERT_TRUE(scorer.call().append(text).ok());
      if (round % 3 == 0) {
        ASSERT_TRUE(scorer.call().append(text).ok());
      }
      for (uint32_t i = random() % 4; i > 0 && scorer.scores().tokens.empty(); --i) {
        scorer.call().stream->Take(1 + random() % 9);
      }
      if (round % 2) scorer.call().close();
      if (whole) {
        while (!scorer.call().stream->Take().finished) std::this_thread::yield();
        history = Joined(history, text);
        if (round % 3 == 0) history = Joined(history, text);
      } else {
        scorer.call().stream->Cancel(CancelKind::kEnd);
        while (!scorer.call().stream->Take().finished) std::this_thread::yield();
      }
    }
    ASSERT_EQ(server.Position("s"), static_cast<int64_t>(history.size())) << round;
    ASSERT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
    if (history.empty() || round % 2) continue;
    const Outcome next = server.Run(Ask({}, 3, "s"));
    ASSERT_EQ(next.tokens, ToyContinuation(GetParam(), history, 3, AskedSampling()));
    history = Joined(history, next.tokens);
  }
}

TEST_P(EngineScore, ACommitTakesTheStateThatItHasComputed) {
  server.CreateSession("s");
  const std::vector<int32_t> text = Tokens(400, 8);
  ASSERT_TRUE(
      Score(*server.engine, {.session = "s", .commit = true}, {text}).status.ok());
  server.AwaitIdle();
  const int64_t before = server.engine->Stats().tokens_computed;
  EXPECT_EQ(server.Run(Ask({}, 1, "s")).tokens,
            ToyContinuation(GetParam(), text, 1, AskedSampling()));
  EXPECT_EQ(server.engine->Stats().tokens_computed - before, 1);
}

TEST_P(EngineScore, ACommitJoinsWhenItsLastScoreIsDelivered) {
  server.CreateSession("s");
  server.Run(Ask({1, 2}, 0, "s"));
  Scorer scorer(*server.engine, {.session = "s", .commit = true});
  const std::vector<int32_t> text = Tokens(40, 8);
  ASSERT_TRUE(scorer.call().append(text).ok());
  scorer.call().close();
  while (scorer.call().stream->space() > TokenStream::kCapacity - 40) {
    std::this_thread::yield();
  }
  EXPECT_EQ(server.Position("s"), 2);
  EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kRunning);
  EXPECT_EQ(scorer.call().stream->Take(39).tokens.size(), 39u);
  EXPECT_EQ(server.Position("s"), 2);
  EXPECT_EQ(ReasonOf(server.Run(Ask({1}, 1, "s")).status), "SESSION_BUSY");
  EXPECT_TRUE(scorer.Finish().status.ok());
  EXPECT_EQ(server.Position("s"), 42);
  EXPECT_EQ(server.Run(Ask({}, 30, "s")).tokens,
            ToyContinuation(GetParam(), Joined({1, 2}, text), 30, AskedSampling()));
}

// A step that throws damages the states of all that took part.
TEST_P(EngineScore, AFailingNeighbourChangesNothing) {
  // Few tokens per step, so that the stream is not full when the neighbour joins.
  ToyServer small{GetParam(), {.step_tokens = 16}};
  small.decoder.Allow(0);
  const std::vector<int32_t> text = Tokens(150, 5);
  Scorer scorer(*small.engine, {});
  ASSERT_TRUE(scorer.call().append(text).ok());
  small.decoder.AwaitHeld();
  Reader bad(*small.engine, Ask({1, ToyDecoder::kThrowing}, 5));
  small.decoder.AllowAll();
  EXPECT_EQ(bad.Finish().status.code(), absl::StatusCode::kInternal);
  const Scores got = scorer.Finish();
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.tokens, Slow(GetParam(), text, 1, {}));
  EXPECT_EQ(small.decoder.largest_step(), 2u);
}

INSTANTIATE_TEST_SUITE_P(States, EngineScore, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

TEST(EngineScore, WithoutTokensNothingIsScored) {
  ToyServer server(ToyState::kFixedAndAppend);
  for (const Parts& parts : {Parts{}, Parts{{}}, Parts{{5}}, Parts{{}, {5}, {}}}) {
    const Scores got = Score(*server.engine, {}, parts);
    EXPECT_TRUE(got.status.ok()) << got.status;
    EXPECT_THAT(got.tokens, IsEmpty());
  }
}

TEST(EngineScore, ASlowReaderPausesOnlyItsOwnCall) {
  ToyServer server(ToyState::kFixedAndAppend);
  Scorer scorer(*server.engine, {});
  ASSERT_TRUE(scorer.call().append(Tokens(500, 1)).ok());
  while (scorer.call().stream->space() > 0) std::this_thread::yield();
  EXPECT_THAT(server.Run(Ask({1}, 100)).tokens, SizeIs(100));
  const Scores got = scorer.Finish();
  EXPECT_EQ(got.tokens, Slow(ToyState::kFixedAndAppend, Tokens(500, 1), 1, {}));
}

// Larger than what joins the history at once, in parts of all sizes, sent at once.
TEST(EngineScore, PartsMayRunAhead) {
  ToyServer server(ToyState::kRing);
  const std::vector<int32_t> text = Tokens(20'000, 5);
  Scorer scorer(*server.engine, {});
  for (size_t at = 0, size = 1; at < text.size(); size = size * 3 + 1) {
    const size_t end = std::min(text.size(), at + size);
    ASSERT_TRUE(scorer.call()
                    .append(std::vector(text.begin() + static_cast<int64_t>(at),
                                        text.begin() + static_cast<int64_t>(end)))
                    .ok());
    at = end;
  }
  EXPECT_EQ(scorer.Finish().tokens, Slow(ToyState::kRing, text, 1, {}));
}

TEST(EngineScore, ErrorsNameWhatIsWrong) {
  ToyServer server(ToyState::kAppend, {}, 64);
  const auto run = [&](const ScoreRequest& request, const Parts& parts) {
    return Score(*server.engine, request, parts).status;
  };
  EXPECT_EQ(ReasonOf(run({.session = "nobody"}, {})), "SESSION_NOT_FOUND");
  EXPECT_EQ(ReasonOf(run({.model = "other"}, {})), "MODEL_NOT_FOUND");
  EXPECT_EQ(FieldOf(run({.candidates = {.most_likely = 21, .ids = {}}}, {})),
            "top_candidate_count");
  EXPECT_EQ(FieldOf(run({}, {{1, 40}})), "prompt[1]");
  EXPECT_EQ(ReasonOf(run({}, {{1}, Tokens(64, 1)})), "CONTEXT_LIMIT");
  EXPECT_TRUE(run({}, {{1}, Tokens(63, 1)}).ok());
  for (const int32_t bad :
       {ToyDecoder::kFailing, ToyDecoder::kThrowing, ToyDecoder::kNotANumber}) {
    EXPECT_EQ(run({}, {{1, bad, 2}}).code(), absl::StatusCode::kInternal) << bad;
  }
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().state_bytes, 0);
}

// 64 tokens are one chunk: the next one fails.
TEST(EngineScore, AFailedCommitLeavesTheSessionAsItWas) {
  for (const ToyState state : kToyStates) {
    ToyServer server(state);
    server.CreateSession("s");
    server.Run(Ask({1, 2}, 0, "s"));
    std::vector<int32_t> text = Tokens(100, 4);
    text[85] = ToyDecoder::kFailing;
    Scorer scorer(*server.engine, {.session = "s", .commit = true});
    EXPECT_FALSE(scorer.Append(text).ok());
    EXPECT_EQ(scorer.scores().status.code(), absl::StatusCode::kInternal);
    EXPECT_FALSE(scorer.scores().tokens.empty());
    EXPECT_EQ(server.Position("s"), 2);
    EXPECT_EQ(server.Run(Ask({}, 5, "s")).tokens,
              ToyContinuation(state, {1, 2}, 5, AskedSampling()));
  }
}

TEST(EngineScore, AnIdleCommitLeavesTheSessionAsItWas) {
  ToyServer server(ToyState::kFixedAndAppend);
  server.CreateSession("s");
  for (const bool closed : {false, true}) {
    Scorer scorer(*server.engine, {.session = "s", .commit = true});
    ASSERT_TRUE(scorer.call().append(Tokens(9, 1)).ok());
    while (scorer.call().stream->space() > TokenStream::kCapacity - 8) {
      std::this_thread::yield();
    }
    if (closed) scorer.call().close();
    while (server.engine->Stats().models[0].stalled == 0) std::this_thread::yield();
    server.clock.Advance(std::chrono::seconds(31));
    while (!scorer.call().stream->cancelled()) std::this_thread::yield();
    EXPECT_EQ(ReasonOf(scorer.Finish().status), "CALLER_IDLE");
    EXPECT_EQ(server.Position("s"), 0);
    EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
  }
}

TEST(EngineScore, TheNewestCommitIsScoredAgainAndJoinsNothing) {
  constexpr char kFirst[] = "01234567-89ab-cdef-0123-000000000001";
  constexpr char kNext[] = "01234567-89ab-cdef-0123-000000000002";
  ToyServer server(ToyState::kFixedAndAppend);
  server.CreateSession("s");
  server.Run(Ask({1, 2}, 5, "s"));
  const auto score = [&](const std::string& id, uint32_t text) {
    return Score(
        *server.engine,
        {.session = "s", .commit = true, .request_id = id, .expected_tokens = {}},
        {Tokens(30, text)});
  };
  const Scores first = score(kFirst, 5);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(server.Position("s"), 37);
  for (int round = 0; round < 2; ++round) {
    const Scores again = score(kFirst, 5);
    EXPECT_TRUE(again.status.ok()) << again.status;
    EXPECT_EQ(again.first_index, first.first_index);
    EXPECT_EQ(again.tokens, first.tokens);
    EXPECT_EQ(server.Position("s"), 37);
  }
  EXPECT_TRUE(score(kNext, 6).status.ok());
  EXPECT_EQ(server.Position("s"), 67);
  EXPECT_EQ(ReasonOf(score(kFirst, 5).status), "REQUEST_REPEATED");
  EXPECT_TRUE(score(kNext, 6).status.ok());
  // Another call is newer.
  server.Run(Ask({1}, 0, "s"));
  EXPECT_EQ(ReasonOf(score(kNext, 6).status), "REQUEST_REPEATED");
  EXPECT_EQ(server.Position("s"), 68);
}

TEST(EngineScore, ACommitThatFailedMayBeRepeated) {
  constexpr char kId[] = "01234567-89ab-cdef-0123-000000000001";
  ToyServer server(ToyState::kFixedAndAppend);
  server.CreateSession("s");
  const ScoreRequest request{
      .session = "s", .commit = true, .request_id = kId, .expected_tokens = 0};
  {
    Scorer scorer(*server.engine, request);
    ASSERT_TRUE(scorer.Append(Tokens(20, 1)).ok());
    scorer.call().stream->Cancel(CancelKind::kEnd);
    scorer.Finish();
  }
  EXPECT_TRUE(Score(*server.engine, request, {Tokens(20, 1)}).status.ok());
  EXPECT_EQ(server.Position("s"), 20);
}

TEST(EngineScore, ExpectsTheTokensOfTheSession) {
  ToyServer server(ToyState::kFixedAndAppend);
  server.CreateSession("s");
  server.Run(Ask({1, 2}, 5, "s"));
  for (const bool commit : {false, true}) {
    const ScoreRequest wrong{
        .session = "s", .commit = commit, .request_id = "", .expected_tokens = 6};
    const absl::Status status = Score(*server.engine, wrong, {}).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(ReasonOf(status), "TOKEN_COUNT_MISMATCH");
    EXPECT_EQ(GetErrorDetail(status)->metadata.at("token_count"), "7");
    ScoreRequest right = wrong;
    right.expected_tokens = 7;
    EXPECT_TRUE(Score(*server.engine, right, {Tokens(3, 1)}).status.ok());
  }
  EXPECT_EQ(server.Position("s"), 10);
  const ScoreRequest id{.session = "s",
                        .request_id = "01234567-89ab-cdef-0123-000000000001"};
  EXPECT_EQ(FieldOf(Score(*server.engine, id, {}).status), "request_id");
}

TEST(EngineScore, ACommitNeedsNoRoomForASession) {
  ToyServer server(ToyState::kFixedAndAppend, {.sessions = 1});
  server.CreateSession("s");
  EXPECT_TRUE(Score(*server.engine, {.session = "s", .commit = true}, {Tokens(9, 1)})
                  .status.ok());
  EXPECT_EQ(server.Position("s"), 9);
}

TEST(EngineScore, OneCallAtATimeOnASession) {
  ToyServer server(ToyState::kFixedAndAppend);
  server.CreateSession("s");
  Scorer open(*server.engine, {.session = "s", .commit = true});
  for (const bool commit : {false, true}) {
    Scorer other(*server.engine, {.session = "s", .commit = commit});
    EXPECT_EQ(ReasonOf(other.status()), "SESSION_BUSY");
  }
  EXPECT_EQ(ReasonOf(server.Run(Ask({1}, 1, "s")).status), "SESSION_BUSY");
  ASSERT_TRUE(server.engine->DeleteSession("s").ok());
  EXPECT_EQ(ReasonOf(open.Finish().status), "SESSION_DELETED");
}

TEST(EngineScore, DeletedBeforeItIsClosedItEndsAsDeletedWhereverTheRunnerIs) {
  ToyServer server(ToyState::kFixedAndAppend);
  for (int round = 0; round < 10; ++round) {
    server.CreateSession("s");
    // It reads the clock in its check of what is due, then when it admits a call.
    server.clock.PauseAt(1 + round % 2);
    Scorer call(*server.engine, {.session = "s", .commit = true});
    ASSERT_TRUE(server.clock.AwaitPaused(kPatience));
    EXPECT_TRUE(server.engine->DeleteSession("s").ok());
    call.call().close();
    server.clock.Resume();
    EXPECT_EQ(ReasonOf(call.Finish().status), "SESSION_DELETED") << round;
    server.AwaitIdle();
  }
}

TEST(EngineScore, HoldsUpNoOtherWhileItsCallerSendsNothing) {
  ToyServer server(ToyState::kFixedAndAppend, {.running = 1});
  for (int round = 0; round < 3; ++round) {
    Scorer first(*server.engine, {});
    ASSERT_TRUE(first.Append(Tokens(5, 1)).ok());
    Scorer second(*server.engine, {});
    ASSERT_TRUE(second.call().append(Tokens(9, 1)).ok());
    EXPECT_EQ(second.Finish().tokens,
              Slow(ToyState::kFixedAndAppend, Tokens(9, 1), 1, {}));
    first.call().stream->Cancel();
  }
}

}  // namespace
}  // namespace mnemon
