// SPDX-License-Identifier: MIT
// What a Generate call means, for every kind of state.
#include <random>

#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class EachState : public testing::TestWithParam<ToyState> {
 protected:
  std::vector<int32_t> Expected(const std::vector<int32_t>& history, int64_t count) {
    return ToyContinuation(GetParam(), history, count, AskedSampling());
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, EachState, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

TEST_P(EachState, AStatelessCallIsTheModelsOwnContinuation) {
  ToyServer server(GetParam());
  for (int64_t length : {1, 2, 15, 16, 17, 63, 64, 65, 150}) {
    const auto prompt = Tokens(length, 7);
    const Outcome outcome = server.Run(Ask(prompt, 40));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.tokens, Expected(prompt, 40)) << length;
    EXPECT_EQ(outcome.start->first_index, 0);
    EXPECT_EQ(outcome.start->prompt_tokens, length);
    EXPECT_EQ(outcome.start->seed, 99u);
    EXPECT_EQ(outcome.first_index, length);
    EXPECT_EQ(outcome.finish->reason, FinishReason::kMaxTokens);
    EXPECT_EQ(outcome.finish->generated_tokens, 40);
  }
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().state_bytes, 0);
}

TEST_P(EachState, ASessionGoesOnWhereItStopped) {
  ToyServer server(GetParam());
  server.CreateSession("s");
  std::vector<int32_t> history;
  for (int call = 0; call < 12; ++call) {
    // Every fourth call continues without a prompt, every fifth only computes one.
    const auto prompt =
        call % 4 == 3 ? std::vector<int32_t>{} : Tokens(call * 7 + 1, call);
    const int count = call % 5 == 2 ? 0 : call * 3 + 1;
    const Outcome outcome = server.Run(Ask(prompt, count, "s"));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.start->first_index, static_cast<int64_t>(history.size()));
    history = Joined(history, prompt);
    EXPECT_EQ(outcome.tokens, Expected(history, count)) << call;
    history = Joined(history, outcome.tokens);
    EXPECT_EQ(server.Position("s"), static_cast<int64_t>(history.size()));
  }
}

TEST_P(EachState, NoTokenIsFedTwice) {
  ToyServer server(GetParam());
  server.CreateSession("s");
  server.Run(Ask(Tokens(100, 1), 50, "s"));
  server.Run(Ask(Tokens(20, 2), 0, "s"));
  server.Run(Ask({}, 10, "s"));
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().tokens_computed, 100 + 50 + 20 + 10 - 1);
  EXPECT_EQ(server.engine->Stats().tokens_generated, 60);
}

TEST_P(EachState, ManySessionsAtOnceEqualSingleRuns) {
  constexpr int kSessions = 64;
  ToyServer server(GetParam(), {.running = kSessions, .step_tokens = 100});
  server.decoder.Allow(0);
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < kSessions; ++i) {
    prompts.push_back(Tokens(1 + i * 5 % 120, i));
    readers.push_back(
        std::make_unique<Reader>(*server.engine, Ask(prompts[i], 20 + i % 30)));
  }
  server.decoder.AllowAll();
  for (int i = 0; i < kSessions; ++i) {
    const Outcome outcome = readers[i]->Finish();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.tokens, Expected(prompts[i], 20 + i % 30)) << i;
  }
  EXPECT_GT(server.decoder.largest_step(), 32u);
}

TEST_P(EachState, BudgetsDoNotChangeTokens) {
  const auto prompt = Tokens(130, 3);
  for (int64_t step_tokens : {1, 7, 64, 1000}) {
    ToyServer server(GetParam(), {.step_tokens = step_tokens});
    EXPECT_EQ(server.Run(Ask(prompt, 30)).tokens, Expected(prompt, 30));
    EXPECT_LE(server.decoder.longest_segment(), std::min<size_t>(step_tokens, 64));
  }
}

TEST_P(EachState, ASlowReaderPausesOnlyItself) {
  ToyServer server(GetParam());
  Reader slow(*server.engine, Ask(Tokens(5, 1), 300));
  Reader fast(*server.engine, Ask(Tokens(9, 2), 300));
  EXPECT_EQ(fast.Finish().tokens, Expected(Tokens(9, 2), 300));
  EXPECT_EQ(slow.stream().space(), 0);
  EXPECT_EQ(server.engine->Stats().running, 1);
  EXPECT_EQ(server.engine->Stats().tokens_generated, 300 + TokenStream::kCapacity);
  EXPECT_EQ(slow.Finish().tokens, Expected(Tokens(5, 1), 300));
}

TEST(Engine, AStopTokenIsDeliveredAndEndsTheCall) {
  ToyServer server(ToyState::kAppend);
  server.CreateSession("s");
  const auto all = ToyContinuation(ToyState::kAppend, {1}, 30, AskedSampling());
  GenerateRequest request = Ask({1}, 30, "s");
  request.stop_tokens = {all[17], all[9], 39};
  const size_t at = std::min(std::find(all.begin(), all.end(), all[17]),
                             std::find(all.begin(), all.end(), all[9])) -
                    all.begin();
  const Outcome outcome = server.Run(request);
  EXPECT_THAT(outcome.tokens, SizeIs(at + 1));
  EXPECT_EQ(outcome.finish->reason, FinishReason::kStopToken);
  EXPECT_EQ(outcome.finish->stop_token, all[at]);
  EXPECT_EQ(server.Position("s"), static_cast<int64_t>(at) + 2);
}

TEST(Engine, AnEndTokenOfTheModelEndsTheCallUnlessItIsIgnored) {
  const auto all = ToyContinuation(ToyState::kAppend, {1}, 30, AskedSampling());
  ToyServer server(ToyState::kAppend, {}, 1024, nullptr,
                   {.end_tokens = {all[12]}, .sampling = {.top_k = 3}});
  server.CreateSession("s");
  GenerateRequest request = Ask({1}, 30, "s");
  const size_t at = std::find(all.begin(), all.end(), all[12]) - all.begin();
  const Outcome outcome = server.Run(request);
  EXPECT_THAT(outcome.tokens, SizeIs(at + 1));
  EXPECT_EQ(outcome.finish->reason, FinishReason::kEndToken);
  EXPECT_EQ(outcome.finish->stop_token, all[12]);
  EXPECT_EQ(server.Position("s"), static_cast<int64_t>(at) + 2);
  request.session.clear();
  request.ignore_end = true;
  EXPECT_EQ(server.Run(request).tokens, all);
  // A stop token of the call is told first.
  request.ignore_end = false;
  request.stop_tokens = {all[12]};
  EXPECT_EQ(server.Run(request).finish->reason, FinishReason::kStopToken);
  EXPECT_EQ(server.engine->DefaultSampling("toy").top_k, 3);
  EXPECT_EQ(server.engine->DefaultSampling("none").top_k, 0);
}

TEST(Engine, GreedyNeedsNoSeedAndADrawnSeedRepeats) {
  ToyServer server(ToyState::kFixed);
  GenerateRequest request = Ask({1, 2}, 30);
  request.sampling.temperature = 0;
  request.seed.reset();
  EXPECT_EQ(server.Run(request).tokens, server.Run(request).tokens);
  request.sampling.temperature = 1;
  const Outcome first = server.Run(request);
  EXPECT_NE(first.start->seed, server.Run(request).start->seed);
  request.seed = first.start->seed;
  EXPECT_EQ(server.Run(request).tokens, first.tokens);
}

TEST(Engine, TheContextEndsACallAndRefusesAPrompt) {
  for (const bool by_facts : {false, true}) {
    ToyDecoder decoder(ToyState::kAppend, by_facts ? 1024 : 50);
    EngineModel model{.facts = {.name = "toy"}, .decoder = &decoder};
    if (by_facts) model.facts.context_limit = 50;
    auto engine = *Engine::Create({model}, {});
    ASSERT_TRUE(engine->CreateSession({.id = "s"}).ok());
    GenerateRequest request = Ask(Tokens(30, 1), 1, "s");
    request.max_tokens.reset();
    const Outcome outcome = Reader(*engine, request).Finish();
    EXPECT_EQ(outcome.finish->reason, FinishReason::kContextLimit);
    // 50 tokens can be computed, so 51 exist.
    EXPECT_EQ(outcome.tokens,
              ToyContinuation(ToyState::kAppend, Tokens(30, 1), 21, AskedSampling()));
    for (const auto& prompt : {Tokens(1, 1), Tokens(0, 1)}) {
      const Outcome again = Reader(*engine, Ask(prompt, 1, "s")).Finish();
      EXPECT_EQ(again.status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_EQ(ReasonOf(again.status), "CONTEXT_LIMIT");
    }
    EXPECT_EQ(Reader(*engine, Ask(Tokens(50, 1), 5)).Finish().tokens.size(), 1u);
    EXPECT_EQ(ReasonOf(Reader(*engine, Ask(Tokens(51, 1), 5)).Finish().status),
              "CONTEXT_LIMIT");
    EXPECT_EQ(engine->Stats().tokens_computed, 50 + 50);
  }
}

TEST(Engine, MaxTokensAbsentMeansTheOption) {
  ToyServer server(ToyState::kFixed, {.max_tokens = 70});
  GenerateRequest request = Ask({1}, 0);
  request.max_tokens.reset();
  const Outcome outcome = server.Run(request);
  EXPECT_THAT(outcome.tokens, SizeIs(70));
  EXPECT_EQ(outcome.finish->reason, FinishReason::kMaxTokens);
}

TEST(Engine, TextComesInAndOut) {
  const auto tokenizer = MakeCharTokenizer("abcdefghijklmnopqrstuvwxyz .,!?-:;'\"()[]");
  ASSERT_TRUE(tokenizer.ok());
  ToyServer server(ToyState::kRing, {}, 0, tokenizer->get());
  GenerateRequest request = Ask({}, 20);
  request.prompt = std::string("hello");
  const Outcome outcome = server.Run(request);
  EXPECT_EQ(outcome.text, *(*tokenizer)->Decode(outcome.tokens));
  EXPECT_EQ(outcome.tokens,
            ToyContinuation(ToyState::kRing, *(*tokenizer)->Encode("hello"), 20,
                            AskedSampling()));
}

TEST(Engine, BadRequestsAreRefusedWithTheirField) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("s");
  const auto refused = [&](const GenerateRequest& request, absl::StatusCode code,
                           const std::string& reason, const std::string& field) {
    const absl::Status status = server.Run(request).status;
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(ReasonOf(status), reason) << status;
    EXPECT_EQ(FieldOf(status), field) << status;
  };
  using absl::StatusCode;
  refused(Ask({}, 1), StatusCode::kInvalidArgument, "INVALID_VALUE", "prompt");
  refused(Ask({}, 1, "s"), StatusCode::kInvalidArgument, "INVALID_VALUE", "prompt");
  refused(Ask({1, 40}, 1), StatusCode::kInvalidArgument, "INVALID_VALUE", "prompt[1]");
  refused(Ask({1}, -1), StatusCode::kInvalidArgument, "INVALID_VALUE", "max_tokens");
  refused(Ask({1}, 1, "../x"), StatusCode::kInvalidArgument, "INVALID_VALUE",
          "session");
  refused(Ask({1}, 1, "t"), StatusCode::kNotFound, "SESSION_NOT_FOUND", "");
  GenerateRequest request = Ask({1}, 1);
  request.model = "other";
  refused(request, StatusCode::kNotFound, "MODEL_NOT_FOUND", "model");
  request = Ask({}, 1);
  request.prompt = std::string("text");
  refused(request, StatusCode::kFailedPrecondition, "NO_TOKENIZER", "prompt");
  request = Ask({1}, 1);
  request.sampling.top_p = 0;
  refused(request, StatusCode::kInvalidArgument, "INVALID_VALUE", "top_p");
  EXPECT_EQ(server.engine->Stats().tokens_computed, 0);
  EXPECT_EQ(server.Position("s"), 0);
}

TEST(Engine, ServesSeveralModels) {
  ToyDecoder fixed(ToyState::kFixed), ring(ToyState::kRing);
  auto engine = *Engine::Create({{.facts = {.name = "fixed"}, .decoder = &fixed},
                                 {.facts = {.name = "ring"}, .decoder = &ring}},
                                {.sessions = 1});
  EXPECT_EQ(FieldOf(Reader(*engine, Ask({1}, 1)).status()), "model");
  EXPECT_FALSE(engine->GetModel("").ok());
  EXPECT_EQ(engine->GetModel("ring")->name, "ring");
  EXPECT_THAT(engine->ListModels(), SizeIs(2));
  ASSERT_TRUE(engine->CreateSession({.id = "s", .model = "ring"}).ok());
  GenerateRequest request = Ask({1, 2}, 20);
  request.model = "fixed";
  Reader a(*engine, request);
  Reader b(*engine, Ask({1, 2}, 20, "s"));
  EXPECT_EQ(a.Finish().tokens,
            ToyContinuation(ToyState::kFixed, {1, 2}, 20, AskedSampling()));
  EXPECT_EQ(b.Finish().tokens,
            ToyContinuation(ToyState::kRing, {1, 2}, 20, AskedSampling()));
  request.session = "s";
  const absl::Status status = Reader(*engine, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "MODEL_MISMATCH");
}

TEST(Engine, RefusesBadOptionsAndModels) {
  ToyDecoder decoder(ToyState::kAppend, 64);
  const EngineModel model{.facts = {.name = "toy"}, .decoder = &decoder};
  const auto create = [&](std::vector<EngineModel> models, Engine::Options options) {
    return Engine::Create(std::move(models), options).status();
  };
  EXPECT_EQ(FieldOf(create({}, {})), "models");
  EXPECT_EQ(FieldOf(create({model, model}, {})), "models");
  EXPECT_EQ(FieldOf(create({model}, {.sessions = 0})), "sessions");
  EXPECT_EQ(FieldOf(create({model}, {.max_queue = -1})), "max_queue");
  EXPECT_EQ(FieldOf(create({model}, {.state_bytes = -5})), "state_bytes");
  EXPECT_EQ(FieldOf(create({model}, {.step_tokens = 0})), "step_tokens");
  // 64 positions of 3 floats.
  EXPECT_EQ(create({model}, {.state_bytes = 64 * 12 - 1}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(create({model}, {.state_bytes = 64 * 12}).ok());
}

}  // namespace
}  // namespace mnemon
