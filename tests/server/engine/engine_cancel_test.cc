// SPDX-License-Identifier: MIT
// A cancelled session is, to the bit, one that never ran ahead of delivery.
#include <random>

#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using ::testing::SizeIs;

class CancelEachState : public testing::TestWithParam<ToyState> {
 protected:
  std::vector<int32_t> Expected(const std::vector<int32_t>& history, int64_t count) {
    return ToyContinuation(GetParam(), history, count, AskedSampling());
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, CancelEachState, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

// One session, cancelled again and again at random moments, with a neighbour that must
// not notice.
TEST_P(CancelEachState, AtRandomPoints) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 11);
  for (int run = 0; run < 12; ++run) {
    ToyServer server(GetParam());
    server.CreateSession("s");
    server.CreateSession("n");
    std::vector<int32_t> history;
    Reader neighbour(*server.engine, Ask(Tokens(12, run), 400, "n"));
    for (int call = 0; call < 8; ++call) {
      const auto prompt =
          Tokens(history.empty() ? 1 + random() % 90 : random() % 40, random());
      history = Joined(history, prompt);
      // At most 50 tokens are generated, so that nothing waits for space.
      server.decoder.Allow(random() % 30);
      Reader reader(*server.engine, Ask(prompt, 1000, "s"));
      server.decoder.AwaitHeld();
      reader.stream().Take();
      neighbour.stream().Take();
      server.decoder.Allow(random() % 20);
      server.decoder.AwaitHeld();
      const int64_t delivered = reader.stream().delivered();
      if (random() % 2) {
        reader.stream().Cancel();
        server.decoder.AllowAll();
      } else {
        // Or when the reader is far behind.
        server.decoder.AllowAll();
        while (reader.stream().space() > 0) std::this_thread::yield();
        reader.stream().Cancel();
      }
      EXPECT_EQ(reader.Finish().status.code(), absl::StatusCode::kCancelled);
      while (server.engine->GetSession("s")->state != SessionState::kIdle) {
        std::this_thread::yield();
      }
      const int64_t position = server.Position("s");
      if (delivered == 0) {
        // As if the call had never been.
        history.resize(history.size() - prompt.size());
        ASSERT_EQ(position, static_cast<int64_t>(history.size()));
        continue;
      }
      history = Joined(history, Expected(history, delivered));
      ASSERT_EQ(position, static_cast<int64_t>(history.size()));

      // Two ways to go on.
      if (random() % 3 == 0) {
        const Outcome next = server.Run(Ask({}, 3, "s"));
        ASSERT_EQ(next.tokens, Expected(history, 3))
            << "run " << run << " call " << call;
        history = Joined(history, next.tokens);
      }
    }
    if (history.empty()) continue;
    const Outcome last = server.Run(Ask({1}, 40, "s"));
    ASSERT_EQ(last.tokens, Expected(Joined(history, {1}), 40)) << "run " << run;
    neighbour.stream().Cancel();
  }
}

TEST_P(CancelEachState, AfterEveryNumberOfDeliveredTokens) {
  for (int delivered = 0; delivered <= 40; ++delivered) {
    ToyServer server(GetParam());
    server.CreateSession("s");
    const auto prompt = Tokens(1 + delivered * 3, delivered);
    server.decoder.Allow(0);
    Reader reader(*server.engine, Ask(prompt, 1000, "s"));
    while (static_cast<int>(reader.so_far().tokens.size()) < delivered) {
      server.decoder.AwaitHeld();
      server.decoder.Allow(1);
      server.decoder.AwaitHeld();
      if (reader.stream().space() < TokenStream::kCapacity) reader.Next();
    }
    // Now it runs ahead as far as it may.
    server.decoder.AllowAll();
    while (reader.stream().space() > 0) std::this_thread::yield();
    reader.stream().Cancel();
    server.AwaitIdle();
    const auto history = delivered == 0 ? std::vector<int32_t>()
                                        : Joined(prompt, reader.so_far().tokens);
    ASSERT_EQ(server.Position("s"), static_cast<int64_t>(history.size()));
    // Computing one token more shows how much was computed again.
    const int64_t before = server.engine->Stats().tokens_computed;
    ASSERT_TRUE(server.Run(Ask({5}, 0, "s")).status.ok());
    EXPECT_LE(server.engine->Stats().tokens_computed - before, 16);
    EXPECT_EQ(server.Run(Ask({}, 20, "s")).tokens, Expected(Joined(history, {5}), 20));
  }
}

// Whoever ends a call may use its session as soon as the end is there.
TEST_P(CancelEachState, TheEndOfAnEndedCallComesAfterTheHold) {
  for (const int taken : {0, 1, 5, 50}) {
    ToyServer server(GetParam());
    server.CreateSession("s");
    std::vector<int32_t> history;
    for (int round = 0; round < 10; ++round) {
      Reader reader(*server.engine, Ask({1, 2, 3}, 50, "s"));
      if (taken == 50) server.AwaitIdle();  // the end waits
      while (reader.stream().delivered() < taken && reader.stream().delivered() < 49) {
        reader.stream().Take(1);
      }
      const int64_t delivered = reader.stream().delivered();
      reader.stream().Cancel(CancelKind::kEnd);
      EXPECT_EQ(reader.Finish().status.code(), absl::StatusCode::kCancelled);
      ASSERT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
      if (delivered > 0) {
        history = Joined(history, {1, 2, 3});
        history = Joined(history, Expected(history, delivered));
      }
      ASSERT_EQ(server.Position("s"), static_cast<int64_t>(history.size()));
    }
    history = Joined(history, {7});
    EXPECT_EQ(server.Run(Ask({7}, 20, "s")).tokens, Expected(history, 20));
  }
}

TEST(Cancel, EndsACallWhoseSessionIsRemovedWhileItDelivers) {
  for (const bool first : {false, true}) {
    ToyServer server(ToyState::kFixed);
    server.CreateSession("s");
    Reader reader(*server.engine, Ask({1}, 5, "s"));
    server.AwaitIdle();
    if (first) reader.stream().Cancel(CancelKind::kEnd);
    ASSERT_TRUE(server.engine->DeleteSession("s").ok());
    if (!first) {
      server.AwaitIdle();
      reader.stream().Cancel(CancelKind::kEnd);
    }
    EXPECT_EQ(reader.Finish().status.code(), absl::StatusCode::kCancelled);
  }
}

TEST_P(CancelEachState, WhenAllIsGeneratedAndNotAllTaken) {
  for (int first : {1, 5, 30}) {
    ToyServer server(GetParam());
    server.CreateSession("s");
    server.decoder.Allow(first);
    Reader reader(*server.engine, Ask({1, 2, 3}, 50, "s"));
    server.decoder.AwaitHeld();
    const size_t delivered = reader.Next().tokens.size();
    server.decoder.AllowAll();
    server.AwaitIdle();
    // All 50 tokens exist, but not for this reader.
    EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kRunning);
    reader.stream().Cancel();
    // The end may be taken before the runner knows of it.
    if (first == 5) {
      EXPECT_TRUE(reader.stream().Take().finished);
    }
    server.AwaitIdle();
    EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
    EXPECT_EQ(server.Position("s"), static_cast<int64_t>(3 + delivered));
    const auto history = Joined({1, 2, 3}, reader.so_far().tokens);
    EXPECT_EQ(server.Run(Ask({}, 30, "s")).tokens, Expected(history, 30));
  }
}

TEST_P(CancelEachState, WhileTheLastStepRuns) {
  // The step that ends the call by itself, or by a failure.
  for (const bool fails : {false, true}) {
    ToyServer server(GetParam());
    server.CreateSession("s");
    std::vector<int32_t> prompt = {1, 2, 3};
    if (fails) prompt.push_back(ToyDecoder::kNotANumber);
    server.decoder.Allow(fails ? 0 : 2);
    Reader reader(*server.engine, Ask(prompt, 3, "s"));
    server.decoder.AwaitHeld();
    reader.stream().Take();
    reader.stream().Cancel();
    server.decoder.AllowAll();
    server.AwaitIdle();
    EXPECT_EQ(server.engine->GetSession("s")->state, SessionState::kIdle);
    const int64_t delivered = reader.stream().delivered();
    EXPECT_EQ(server.Position("s"),
              delivered == 0 ? 0 : static_cast<int64_t>(prompt.size()) + delivered);
    EXPECT_TRUE(Reader(*server.engine, Ask({1}, 1, "s")).status().ok());
  }
}

TEST_P(CancelEachState, DuringThePromptLeavesTheSessionAsItWas) {
  ToyServer server(GetParam(), {.step_tokens = 20});
  server.CreateSession("s");
  const auto first = Tokens(70, 5);
  const auto history = Joined(first, server.Run(Ask(first, 20, "s")).tokens);
  server.AwaitIdle();
  const int64_t bytes = server.engine->GetSession("s")->state_size_bytes;
  for (const int steps : {1, 3, 9}) {
    server.decoder.Allow(steps);
    GenerateRequest request = Ask(Tokens(200, 4), 10, "s");
    request.request_id = "00000000-0000-0000-0000-000000000001";
    Reader reader(*server.engine, request);
    server.decoder.AwaitHeld();
    reader.stream().Cancel();
    server.decoder.AllowAll();
    EXPECT_EQ(reader.Finish().status.code(), absl::StatusCode::kCancelled);
    server.AwaitIdle();
    EXPECT_EQ(server.Position("s"), 90);
    EXPECT_EQ(server.engine->GetSession("s")->state_size_bytes, bytes);
  }
  // Nothing of it is left to compute, and its request id is forgotten with the next
  // call.
  const int64_t before = server.engine->Stats().tokens_computed;
  EXPECT_EQ(server.Run(Ask({}, 30, "s")).tokens, Expected(history, 30));
  EXPECT_LE(server.engine->Stats().tokens_computed - before, 30 + 16);
  GenerateRequest again = Ask({}, 3, "s");
  again.request_id = "00000000-0000-0000-0000-000000000001";
  EXPECT_TRUE(server.Run(again).status.ok());
  EXPECT_TRUE(server.Run(Ask({}, 3, "s")).status.ok());
  EXPECT_EQ(ReasonOf(server.Run(again).status), "REQUEST_REPEATED");
}

TEST_P(CancelEachState, AStatelessCallFreesItsSlotAtOnce) {
  ToyServer server(GetParam(), {.running = 1, .max_queue = 1});
  Reader first(*server.engine, Ask({1}, 1000));
  Reader second(*server.engine, Ask({2}, 20));
  first.Next();
  first.stream().Cancel();
  EXPECT_EQ(second.Finish().tokens, Expected({2}, 20));
  server.AwaitIdle();
  EXPECT_EQ(server.engine->Stats().state_bytes, 0);
}

TEST(EngineCancel, BeforeTheEngineTookItUpLeavesTheSessionAsItWas) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("s");
  server.decoder.Allow(0);
  Reader other(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  Reader reader(*server.engine, Ask(Tokens(30, 1), 5, "s"));
  reader.stream().Cancel();
  server.decoder.AllowAll();
  EXPECT_EQ(reader.Finish().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server.Position("s"), 0);
  EXPECT_THAT(other.Finish().tokens, SizeIs(5));
}

// Its client is gone, its step is not.
TEST(EngineCancel, ARepetitionDuringTheFirstCallTakesItOver) {
  ToyServer server(ToyState::kFixed);
  server.CreateSession("s");
  server.decoder.Allow(0);
  GenerateRequest request = Ask(Tokens(30, 1), 5, "s");
  request.request_id = "00000000-0000-0000-0000-000000000001";
  Reader first(*server.engine, request);
  server.decoder.AwaitHeld();
  const absl::Status busy = Reader(*server.engine, Ask({1}, 5, "s")).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(busy), "SESSION_BUSY");
  EXPECT_TRUE(GetErrorDetail(busy)->retry_after);
  Reader second(*server.engine, request);
  server.decoder.AllowAll();
  EXPECT_EQ(ReasonOf(first.Finish().status), "STREAM_RESUMED");
  const auto expected =
      ToyContinuation(ToyState::kFixed, Tokens(30, 1), 5, AskedSampling());
  EXPECT_EQ(second.Finish().tokens, expected);
  EXPECT_EQ(server.Position("s"), 35);
  EXPECT_EQ(server.Run(request).tokens, expected);
}

TEST(EngineCancel, ARingKeepsABoundedNumberOfBlocks) {
  ToyServer server(ToyState::kRing);
  server.CreateSession("s");
  const int64_t block_bytes = 16 * 3 * 4;
  // Those before the prompt are kept as well until a token was delivered.
  const int64_t most = (ToyDecoder::kRingCapacity + 128 + 15) / 16 + 1;
  Reader reader(*server.engine, Ask(Tokens(300, 1), 600, "s"));
  while (reader.so_far().tokens.size() < 600) {
    reader.Next();
    EXPECT_LE(server.engine->Stats().state_bytes, most * block_bytes);
  }
  reader.Finish();
  server.AwaitIdle();
  EXPECT_LE(server.engine->Stats().state_bytes, 3 * block_bytes);
}

}  // namespace
}  // namespace mnemon
