// SPDX-License-Identifier: MIT
// The memory of an engine: what is counted, and what happens at the limit.
#include <algorithm>
#include <numeric>

#include "tests/fakes/toy_predictor.h"
#include "tests/server/engine/engine_fixture.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

constexpr int64_t kOneMiB = int64_t{1} << 20;
const int64_t kPiece =
    TokenHistory::BytesOf(512, TokenHistory::WidthFor(ToyDecoder::kVocab));
constexpr int64_t kRun = 2 * kOneMiB;

TEST(EngineMemory, EachKindIsCountedAndComesBack) {
  ToyServer server(ToyState::kAppend, {}, 4096);
  const auto now = [&] { return server.engine->Stats().memory; };
  EXPECT_EQ(now().sessions, 0);
  server.CreateSession("a");
  EXPECT_EQ(now().sessions, Session::kBytes);
  EXPECT_EQ(now().histories, 0);
  EXPECT_EQ(now().limit, ByteBudget::kUnlimited);

  GenerateRequest request = Ask(Tokens(600, 1), 200, "a");
  request.sampling.frequency_penalty = 0.5;
  request.logprobs = {.wanted = true, .candidates = {.most_likely = 3}};
  Reader call(*server.engine, request);
  ASSERT_TRUE(call.status().ok());
  // Nobody reads: the stream is full in the end.
  ASSERT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.output ==
           64 * static_cast<int64_t>(sizeof(int32_t) + sizeof(TokenLogprobs) +
                                     3 * sizeof(TokenCandidate));
  }));
  EXPECT_EQ(now().histories, 2 * kPiece);
  EXPECT_GT(now().queue, 0);
  ASSERT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.state == (664 + 15) / 16 * 16 * 3 * 4;
  })) << now().state;
  EXPECT_TRUE(call.Finish().status.ok());
  EXPECT_EQ(now().output, 0);
  ASSERT_TRUE(server.engine->DeleteSession("a").ok());
  ASSERT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.sessions == 0 && memory.histories == 0 && memory.queue == 0 &&
           memory.state == 0;
  }));
  EXPECT_GT(now().state_reserve, 0);
  EXPECT_EQ(now().used, now().state_reserve);
}

// One whose consumer has gone before the first token keeps its prompt with its session,
// for whoever resumes it: within the share of what stays.
TEST(EngineMemory, PromptsKeptToBeResumedCountAsHistories) {
  ToyServer server(ToyState::kAppend, {}, 4096);
  const auto now = [&] { return server.engine->Stats().memory; };
  server.CreateSession("a");
  server.decoder.Allow(0);
  GenerateRequest request = Ask(Tokens(600, 1), 10, "a");
  request.request_id = "00000000-0000-4000-8000-000000000001";
  Reader call(*server.engine, request);
  ASSERT_TRUE(call.status().ok());
  server.decoder.AwaitHeld();
  call.stream().Cancel();
  server.decoder.AllowAll();
  EXPECT_TRUE(absl::IsCancelled(call.Finish().status));
  server.AwaitIdle();
  EXPECT_EQ(server.Position("a"), 0);
  EXPECT_EQ(now().queue, 0);
  EXPECT_GE(now().histories, 600 * static_cast<int64_t>(sizeof(int32_t)));
  ASSERT_TRUE(server.engine->DeleteSession("a").ok());
  ASSERT_TRUE(AwaitMemory(
      *server.engine, [](const MemoryStats& memory) { return memory.histories == 0; }));
}

// Their maximum from the start: the memory of as many different tokens as there can be.
TEST(EngineMemory, CountsOfPenaltiesAreChargedOnceAndExactly) {
  ToyServer server(ToyState::kAppend, {}, 4096);
  const auto now = [&] { return server.engine->Stats().memory.queue; };
  for (const int32_t window : {6, 64, 65536}) {
    for (const int64_t max_tokens : {10, 200}) {
      server.decoder.Allow(0);
      GenerateRequest request = Ask({1, 2, 3}, max_tokens);
      request.sampling.frequency_penalty = 0.5;
      request.sampling.penalty_window_tokens = window;
      Reader call(*server.engine, request);
      server.decoder.AwaitHeld();
      const int64_t most =
          std::min({int64_t{window}, max_tokens + 3, server.decoder.kVocab});
      PenaltyCounts full(Rounded(request.sampling), most);
      EXPECT_EQ(now(), full.bytes()) << window << ", " << max_tokens;
      std::vector<int32_t> different(static_cast<size_t>(most));
      std::iota(different.begin(), different.end(), 0);
      full.Update(different);
      EXPECT_EQ(now(), full.bytes());
      server.decoder.AllowAll();
      EXPECT_TRUE(call.Finish().status.ok());
      ASSERT_TRUE(AwaitMemory(
          *server.engine, [](const MemoryStats& memory) { return memory.queue == 0; }));
    }
  }
}

TEST(EngineMemory, ShadowsAreCounted) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("a");
  Reader call(*server.engine, Ask({1}, 200, "a"));
  ASSERT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.shadows >= 3 * 3 * static_cast<int64_t>(sizeof(float));
  }));
  EXPECT_TRUE(call.Finish().status.ok());
  server.AwaitIdle();
  ASSERT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.shadows == 0 && memory.state == 3 * sizeof(float);
  }));
}

TEST(EngineMemory, PartsToScoreAreCounted) {
  ToyServer server(ToyState::kAppend, {}, 1 << 16);
  server.decoder.Allow(0);
  Scorer call(*server.engine, {});
  ASSERT_TRUE(call.call().append(Tokens(20'000, 3)).ok());
  server.decoder.AwaitHeld();
  const int64_t bytes = server.engine->Stats().memory.queue;
  EXPECT_GE(bytes, 10'000 * 4);
  EXPECT_LE(bytes, 20'000 * 4);
  server.decoder.AllowAll();
  call.Finish();
  ASSERT_TRUE(AwaitMemory(*server.engine,
                          [](const MemoryStats& memory) { return memory.queue == 0; }));
}

struct PredictServer {
  explicit PredictServer(int64_t memory_bytes) {
    EngineModel model;
    model.facts.name = "toy";
    model.predictor = &predictor;
    Engine::Options options;
    options.memory_bytes = memory_bytes;
    engine = *Engine::Create({model}, options);
  }
  ~PredictServer() { predictor.Open(); }
  absl::Status Predict(ReadySignal& signal, absl::Status& result) {
    PredictRequest request;
    request.tokens.assign(40, 1);
    request.batch = 1;
    return engine
        ->Predict(request,
                  [&](absl::StatusOr<Predictor::Output> output) {
                    result = output.status();
                    signal.Raise();
                  })
        .status();
  }

  ToyPredictor predictor;
  std::unique_ptr<Engine> engine;
};

TEST(EngineMemory, PredictionsAreCounted) {
  PredictServer server(ByteBudget::kUnlimited);
  server.predictor.Close();
  ReadySignal done;
  absl::Status result;
  ASSERT_TRUE(server.Predict(done, result).ok());
  ASSERT_TRUE(server.predictor.AwaitHeld());
  EXPECT_EQ(server.engine->Stats().memory.predictions,
            40 * ToyPredictor::kVocab * static_cast<int64_t>(sizeof(float)));
  server.predictor.Open();
  ASSERT_TRUE(done.Await());
  EXPECT_TRUE(result.ok());
  EXPECT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.predictions == 0;
  }));
}

TEST(EngineMemory, PredictionsEndAtTheLimit) {
  {
    PredictServer server(1000);
    ReadySignal done;
    absl::Status result;
    ASSERT_TRUE(server.Predict(done, result).ok());
    ASSERT_TRUE(done.Await());
    EXPECT_EQ(ReasonOf(result), "MEMORY_LIMIT");
  }
  PredictServer server(100);
  ReadySignal done;
  absl::Status result;
  EXPECT_EQ(ReasonOf(server.Predict(done, result)), "MEMORY_LIMIT");
}

TEST(EngineMemory, SessionsAndPromptsAreRefusedAtTheLimit) {
  ToyServer server(ToyState::kAppend,
                   {.memory_bytes = kRun + 5 * Session::kBytes + 500}, 1 << 16);
  server.CreateSession("a");
  EXPECT_TRUE(server.Run(Ask({1}, 3, "a")).status.ok());
  const int64_t before = server.Position("a");
  const Outcome large = server.Run(Ask(Tokens(30'000, 1), 3, "a"));
  EXPECT_EQ(large.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(large.status), "MEMORY_LIMIT");
  EXPECT_TRUE(GetErrorDetail(large.status)->retry_after.has_value());
  EXPECT_EQ(server.Position("a"), before);
  EXPECT_TRUE(server.Run(Ask({1}, 3, "a")).status.ok());
  for (const char* id : {"b", "c", "d", "e"}) server.CreateSession(id);
  EXPECT_EQ(ReasonOf(server.engine->CreateSession({.id = "f"}).status()),
            "MEMORY_LIMIT");
  ASSERT_TRUE(server.engine->DeleteSession("b").ok());
  ASSERT_TRUE(AwaitMemory(*server.engine, [](const MemoryStats& memory) {
    return memory.used <= memory.limit - Session::kBytes;
  }));
  server.CreateSession("f");
}

TEST(EngineMemory, ACallThatEndedAtTheLimitGivesTokensAndErrorAgain) {
  ToyServer server(ToyState::kRing,
                   {.memory_bytes = kRun + Session::kBytes + 10 * kPiece});
  server.CreateSession("s");
  GenerateRequest request = Ask({1}, 60'000, "s");
  request.request_id = "00000000-0000-4000-8000-000000000001";
  const Outcome first = server.Run(request);
  ASSERT_EQ(ReasonOf(first.status), "MEMORY_LIMIT") << first.status;
  EXPECT_EQ(GetErrorDetail(first.status)->metadata["prompt_taken"], "true");
  EXPECT_FALSE(GetErrorDetail(first.status)->retry_after);
  EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
  const Outcome again = server.Run(request);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.status, first.status);
}

// It keeps what it generated; its history takes no more than a piece too much.
TEST(EngineMemory, AGrowingHistoryEndsItsCallAtTheLimit) {
  const int64_t limit = kRun + 10 * kPiece;
  ToyServer server(ToyState::kRing, {.memory_bytes = limit});
  const Outcome outcome = server.Run(Ask({1}, 60'000));
  EXPECT_EQ(ReasonOf(outcome.status), "MEMORY_LIMIT");
  EXPECT_GT(outcome.tokens.size(), 3000u);
  EXPECT_LT(outcome.tokens.size(), 6000u);
  ASSERT_TRUE(AwaitMemory(
      *server.engine, [](const MemoryStats& memory) { return memory.prompts == 0; }));
  EXPECT_TRUE(server.Run(Ask({1}, 100)).status.ok());
}

// Two models whose pools take whole runs of memory, and room for one run.
struct TwoModels {
  explicit TwoModels(ToyState state) : decoders{ToyDecoder(state), ToyDecoder(state)} {
    std::vector<EngineModel> models(2);
    for (int i = 0; i < 2; ++i) {
      models[i].facts.name = i == 0 ? "a" : "b";
      models[i].decoder = &decoders[i];
    }
    Engine::Options options;
    options.memory_bytes = kRun + kOneMiB;
    engine = *Engine::Create(models, options);
    for (const char* name : {"a", "b"}) {
      EXPECT_TRUE(engine->CreateSession({.id = name, .model = name}).ok());
    }
  }
  ~TwoModels() {
    for (ToyDecoder& decoder : decoders) decoder.AllowAll();
  }
  std::vector<int32_t> Run(const std::string& name,
                           const std::vector<int32_t>& prompt) {
    const Outcome outcome = Reader(*engine, Ask(prompt, 20, name)).Finish();
    EXPECT_TRUE(outcome.status.ok()) << name << ": " << outcome.status;
    return outcome.tokens;
  }

  ToyDecoder decoders[2];
  std::unique_ptr<Engine> engine;
};

class SharedMemory : public testing::TestWithParam<ToyState> {};

TEST_P(SharedMemory, StatesAtRestGoForCallsOfOtherModels) {
  TwoModels server(GetParam());
  std::vector<int32_t> history[2];
  for (int round = 0; round < 6; ++round) {
    std::vector<int32_t>& own = history[round % 2];
    const std::string name = round % 2 == 0 ? "a" : "b";
    const std::vector<int32_t> prompt = Tokens(50, round);
    own = Joined(own, prompt);
    const std::vector<int32_t> got = server.Run(name, prompt);
    EXPECT_EQ(got, ToyContinuation(GetParam(), own, 20, AskedSampling()));
    own = Joined(own, got);
  }
  // The first one's had to go.
  EXPECT_EQ(server.engine->GetSession("a")->state_size_bytes, 0);
  EXPECT_LE(server.engine->Stats().memory.used, server.engine->Stats().memory.limit);
}

TEST_P(SharedMemory, ACallThatFindsNoneEndsAndHarmsNobody) {
  TwoModels server(GetParam());
  server.decoders[0].Allow(1);
  Reader running(*server.engine, Ask({1}, 20, "a"));
  server.decoders[0].AwaitHeld();
  const Outcome refused = Reader(*server.engine, Ask({1}, 20, "b")).Finish();
  EXPECT_EQ(ReasonOf(refused.status), "NO_FREE_BLOCKS");
  server.decoders[0].AllowAll();
  EXPECT_EQ(running.Finish().tokens,
            ToyContinuation(GetParam(), {1}, 20, AskedSampling()));
  server.Run("b", {1});
}

INSTANTIATE_TEST_SUITE_P(States, SharedMemory,
                         testing::Values(ToyState::kFixed, ToyState::kRing,
                                         ToyState::kAppend),
                         [](const auto& info) { return ToyName(info.param); });

}  // namespace
}  // namespace mnemon
