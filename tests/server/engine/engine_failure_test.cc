// SPDX-License-Identifier: MIT
// What goes wrong with one session stays with that session.
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

struct Fault {
  int32_t token;
  absl::StatusCode code;
  std::string reason;
};

class FaultInEachState : public testing::TestWithParam<std::tuple<ToyState, int>> {
 protected:
  ToyState state() const { return std::get<0>(GetParam()); }
  Fault fault() const {
    const Fault faults[] = {
        {ToyDecoder::kFailing, absl::StatusCode::kInternal, ""},
        {ToyDecoder::kThrowing, absl::StatusCode::kInternal, "MODEL_FAILURE"},
        {ToyDecoder::kNotANumber, absl::StatusCode::kInternal, "NON_FINITE_LOGITS"},
        {ToyDecoder::kOutOfMemory, absl::StatusCode::kResourceExhausted,
         "OUT_OF_MEMORY"},
        {ToyDecoder::kNonFinite, absl::StatusCode::kInternal, "NON_FINITE_STATE"}};
    return faults[std::get<1>(GetParam())];
  }
  std::vector<int32_t> Expected(const std::vector<int32_t>& history, int64_t count) {
    return ToyContinuation(state(), history, count, AskedSampling());
  }
};
std::string FaultName(const testing::TestParamInfo<std::tuple<ToyState, int>>& info) {
  const char* names[] = {"Status", "Exception", "NotANumber", "OutOfMemory",
                         "NonFiniteState"};
  return ToyName(std::get<0>(info.param)) + names[std::get<1>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Engine, FaultInEachState,
                         testing::Combine(testing::ValuesIn(kToyStates),
                                          testing::Range(0, 5)),
                         FaultName);

TEST_P(FaultInEachState, EndsItsOwnStreamOnly) {
  constexpr int kNeighbours = 8;
  ToyServer server(state());
  server.CreateSession("bad");
  const auto before = server.Run(Ask(Tokens(40, 1), 25, "bad")).tokens;
  server.decoder.Allow(0);
  std::vector<std::unique_ptr<Reader>> neighbours;
  for (int i = 0; i < kNeighbours; ++i) {
    neighbours.push_back(
        std::make_unique<Reader>(*server.engine, Ask(Tokens(1 + 13 * i, i), 60)));
  }
  server.decoder.AwaitHeld();
  server.decoder.Allow(9);  // some decode, some are still in their prompts
  server.decoder.AwaitHeld();
  Reader bad(*server.engine, Ask(Joined(Tokens(5, 2), {fault().token}), 10, "bad"));
  server.decoder.AllowAll();
  const absl::Status status = bad.Finish().status;
  EXPECT_EQ(status.code(), fault().code) << status;
  EXPECT_EQ(ReasonOf(status), fault().reason);
  EXPECT_EQ(std::string(status.message()).find("exception"), std::string::npos);
  for (int i = 0; i < kNeighbours; ++i) {
    const Outcome outcome = neighbours[i]->Finish();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.tokens, Expected(Tokens(1 + 13 * i, i), 60)) << i;
  }
  // The session is as it was before the call that failed.
  EXPECT_EQ(server.Position("bad"), 40 + 25);
  EXPECT_EQ(server.Run(Ask({}, 5, "bad")).tokens,
            Expected(Joined(Tokens(40, 1), before), 5));
  EXPECT_EQ(server.Run(Ask({3, 1}, 20)).tokens, Expected({3, 1}, 20));
}

TEST_P(FaultInEachState, SeveralAtOnceAndAgain) {
  ToyServer server(state());
  for (int round = 0; round < 5; ++round) {
    server.decoder.Allow(0);
    std::vector<std::unique_ptr<Reader>> readers;
    for (int i = 0; i < 12; ++i) {
      auto prompt = Tokens(3 + i, i);
      if (i % 3 == 1) prompt.push_back(fault().token);
      readers.push_back(std::make_unique<Reader>(*server.engine, Ask(prompt, 15)));
    }
    server.decoder.AllowAll();
    for (int i = 0; i < 12; ++i) {
      const Outcome outcome = readers[i]->Finish();
      if (i % 3 == 1) {
        EXPECT_EQ(outcome.status.code(), fault().code);
      } else {
        EXPECT_EQ(outcome.tokens, Expected(Tokens(3 + i, i), 15));
      }
    }
  }
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().state_bytes, 0);
}

// A call that only computes its prompt has no logits to judge by.
TEST(EngineFailure, AStateThatIsNotFiniteIsNotKept) {
  for (const ToyState state : kToyStates) {
    ToyServer server(state);
    server.CreateSession("s");
    const auto before = Tokens(40, 1);
    ASSERT_TRUE(server.Run(Ask(before, 0, "s")).status.ok());
    const Outcome bad =
        server.Run(Ask(Joined(Tokens(100, 2), {ToyDecoder::kNonFinite, 1}), 0, "s"));
    EXPECT_EQ(bad.status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(bad.status), "NON_FINITE_STATE");
    EXPECT_EQ(GetErrorDetail(bad.status)->metadata.at("session"), "s");
    EXPECT_EQ(server.Position("s"), 40);
    EXPECT_EQ(server.Run(Ask({}, 30, "s")).tokens,
              ToyContinuation(state, before, 30, AskedSampling()));
  }
}

// After a step that failed its calls are stepped alone; those that were cancelled are
// not stepped at all.
TEST(EngineFailure, StepsThatAreMadeAloneEndWithTheirCalls) {
  for (const bool cancelled : {false, true}) {
    ToyServer server(ToyState::kAppend);
    server.decoder.Allow(0);
    std::vector<std::unique_ptr<Reader>> readers;
    const auto ask = [&](std::vector<int32_t> prompt) {
      GenerateRequest request = Ask(std::move(prompt), 15);
      if (!cancelled) request.time_limit = std::chrono::seconds(1);
      readers.push_back(std::make_unique<Reader>(*server.engine, request));
    };
    ask({1});
    server.decoder.AwaitHeld();
    for (int i = 0; i < 10; ++i) ask({1, 2, 3});
    ask({1, ToyDecoder::kThrowing});
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();  // all together
    server.decoder.Allow(1);
    server.decoder.AwaitHeld();  // the first one alone
    if (cancelled) {
      for (const auto& reader : readers) reader->stream().Cancel();
    } else {
      server.clock.Advance(std::chrono::seconds(1));
    }
    server.decoder.AllowAll();
    for (const auto& reader : readers) reader->Finish();
    server.AwaitIdle();
    EXPECT_EQ(server.engine->Stats().steps, 3);
  }
}

TEST(EngineBlocks, ALongPromptFitsARing) {
  const int64_t per_session = (ToyDecoder::kRingCapacity + 128 + 15) / 16 + 1;
  ToyServer server(ToyState::kRing,
                   {.sessions = 4, .state_bytes = per_session * 16 * 3 * 4});
  server.CreateSession("s");
  const auto prompt = Tokens(700, 1);
  const Outcome outcome = server.Run(Ask(prompt, 90, "s"));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.tokens,
            ToyContinuation(ToyState::kRing, prompt, 90, AskedSampling()));
  EXPECT_TRUE(server.Run(Ask(prompt, 5, "s")).status.ok());
}

}  // namespace
}  // namespace mnemon
