// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using client::GenerateChunk;
using client::GenerateOptions;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr ToyState kState = ToyState::kFixedAndAppend;

std::vector<int32_t> Greedy(std::vector<int32_t> history, int64_t count,
                            ToyState state = kState) {
  return ToyContinuation(state, std::move(history), count, {.temperature = 0});
}

TEST(Generate, StreamsTheModelsTokensAndText) {
  Rig rig;
  Collected got = Collect(
      *rig.client,
      {.text = "abc", .stopping = {.max_tokens = 50}, .sampling = {.temperature = 0}});
  ASSERT_TRUE(got.result.ok()) << got.result.status();
  const std::vector<int32_t> expected = Greedy({13, 14, 15}, 50);
  EXPECT_THAT(got.tokens, ElementsAreArray(expected));
  EXPECT_EQ(got.text, *rig.tokenizer->Decode(expected));
  EXPECT_EQ(got.first_index, 3);
  EXPECT_EQ(got.result->prompt_tokens, 3);
  EXPECT_EQ(got.result->generated_tokens, 50);
  EXPECT_EQ(got.result->finish_reason, "MAX_TOKENS");
  EXPECT_GT(got.result->time_to_first_token.count(), 0);
  EXPECT_EQ(rig.engine->Stats().sessions, 0);
}

TEST(Generate, SamplesWithTheGivenSeedAndReturnsTheDrawnOne) {
  Rig rig;
  const GenerateOptions options{.tokens = {1, 2}, .stopping = {.max_tokens = 40}};
  GenerateOptions seeded = options;
  seeded.sampling.seed = 0xfedcba9876543210;
  Collected first = Collect(*rig.client, seeded);
  EXPECT_THAT(first.tokens, ElementsAreArray(ToyContinuation(
                                kState, {1, 2}, 40, {.seed = 0xfedcba9876543210})));
  EXPECT_EQ(first.result->seed, 0xfedcba9876543210);

  Collected drawn = Collect(*rig.client, options);
  seeded.sampling.seed = drawn.result->seed;
  EXPECT_THAT(Collect(*rig.client, seeded).tokens, ElementsAreArray(drawn.tokens));
  EXPECT_NE(Collect(*rig.client, options).result->seed, drawn.result->seed);
}

TEST(Generate, AllSamplingFieldsReachTheEngine) {
  Rig rig;
  // One after the other, so that each changes what comes.
  SamplingParams sampling{.temperature = 1.7, .seed = 5};
  GenerateOptions options{.tokens = {4},
                          .stopping = {.max_tokens = 60},
                          .sampling = {.temperature = 1.7, .seed = 5}};
  std::set<std::vector<int32_t>> seen;
  const auto check = [&] {
    const Collected got = Collect(*rig.client, options);
    ASSERT_TRUE(got.result.ok()) << got.result.status();
    EXPECT_THAT(got.tokens,
                ElementsAreArray(ToyContinuation(kState, {4}, 60, sampling)));
    EXPECT_TRUE(seen.insert(got.tokens).second);
  };
  check();
  options.sampling.top_k = sampling.top_k = 29;
  check();
  options.sampling.top_p = sampling.top_p = 0.95;
  check();
  options.sampling.min_p = sampling.min_p = 0.15;
  check();
  options.sampling.typical_p = sampling.typical_p = 0.9;
  check();
  options.sampling.repetition_penalty = sampling.repetition_penalty = 1.3;
  check();
  options.sampling.frequency_penalty = sampling.frequency_penalty = 0.6;
  check();
  options.sampling.presence_penalty = sampling.presence_penalty = 0.4;
  check();
  options.sampling.penalty_window_tokens = sampling.penalty_window_tokens = 9;
  check();
  options.sampling.logit_bias = {{.token = 3, .bias = 1.5f},
                                 {.token = 7, .bias = -INFINITY}};
  sampling.logit_bias = {{.token = 3, .bias = 1.5f}, {.token = 7, .bias = -INFINITY}};
  check();
}

TEST(Generate, AStopStringEndsTheTextBeforeIt) {
  Rig rig;
  const GenerateOptions plain{
      .text = "abc", .stopping = {.max_tokens = 60}, .sampling = {.seed = 3}};
  const Collected all = Collect(*rig.client, plain);
  ASSERT_TRUE(all.result.ok()) << all.result.status();
  GenerateOptions options = plain;
  const std::string stop = all.text.substr(20, 3);
  options.stopping.stop_strings = {"never", stop};
  const Collected got = Collect(*rig.client, options);
  ASSERT_TRUE(got.result.ok()) << got.result.status();
  EXPECT_EQ(got.result->finish_reason, "STOP");
  EXPECT_EQ(got.result->stop_string, stop);
  EXPECT_EQ(got.text, all.text.substr(0, all.text.find(stop)));
}

TEST(Generate, LogprobsComeWithTheirTokens) {
  Rig rig;
  std::vector<client::TokenLogprobs> scored;
  std::vector<int32_t> tokens;
  GenerateOptions options{
      .tokens = {4, 5}, .stopping = {.max_tokens = 30}, .sampling = {.seed = 3}};
  const auto take = [&](const client::GenerateChunk& chunk) {
    scored.insert(scored.end(), chunk.logprobs.begin(), chunk.logprobs.end());
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    return true;
  };
  ASSERT_TRUE(rig.client->Generate(options, take).ok());
  EXPECT_TRUE(scored.empty());
  tokens.clear();
  options.logprobs = {.wanted = true, .most_likely = 3, .ids = {7}};
  ASSERT_TRUE(rig.client->Generate(options, take).ok());
  ASSERT_EQ(scored.size(), tokens.size());
  for (size_t i = 0; i < scored.size(); ++i) {
    EXPECT_EQ(scored[i].index, static_cast<int64_t>(2 + i));
    EXPECT_EQ(scored[i].token, tokens[i]);
    ASSERT_EQ(scored[i].candidates.size(), 4u);
    EXPECT_GE(scored[i].candidates[0].logprob, scored[i].logprob);
    EXPECT_GE(scored[i].candidates[1].logprob, scored[i].candidates[2].logprob);
    EXPECT_EQ(scored[i].candidates[3].token, 7);
  }
}

TEST(Generate, TheTimeLimitEndsIt) {
  Rig rig;
  GenerateOptions options{.tokens = {4}, .sampling = {.seed = 3}};
  options.stopping.time_limit = std::chrono::milliseconds(30);
  const Collected got = Collect(*rig.client, options);
  ASSERT_TRUE(got.result.ok()) << got.result.status();
  // A toy is fast: it may fill its context first.
  EXPECT_THAT(got.result->finish_reason, testing::AnyOf("TIME_LIMIT", "CONTEXT_LIMIT"));
}

TEST(Text, TokensAndBack) {
  Rig rig;
  v1::TokenizeRequest request;
  request.set_text("b\xc3\xa9\n");
  v1::TokenizeResponse tokens;
  BoundedContext first;
  ASSERT_TRUE(rig.generation->Tokenize(&first, request, &tokens).ok());
  EXPECT_THAT(tokens.tokens(), ElementsAre(14, 39, 0));
  EXPECT_THAT(tokens.byte_offsets(), ElementsAre(0, 1, 3));
  v1::DetokenizeRequest back;
  back.set_model("models/toy");
  *back.mutable_tokens() = tokens.tokens();
  v1::DetokenizeResponse text;
  BoundedContext second;
  ASSERT_TRUE(rig.generation->Detokenize(&second, back, &text).ok());
  EXPECT_EQ(text.text(), request.text());
  EXPECT_EQ(text.raw(), request.text());
}

TEST(Text, ErrorsNameTheField) {
  Rig rig;
  v1::TokenizeRequest request;
  request.set_text("a?");
  v1::TokenizeResponse tokens;
  BoundedContext first;
  auto detail = GetErrorDetail(
      client::FromGrpcStatus(rig.generation->Tokenize(&first, request, &tokens)));
  EXPECT_EQ(detail->reason, "UNKNOWN_CHARACTER");
  EXPECT_EQ(detail->field, "text");
  v1::DetokenizeRequest back;
  back.add_tokens(40);
  v1::DetokenizeResponse text;
  BoundedContext second;
  detail = GetErrorDetail(
      client::FromGrpcStatus(rig.generation->Detokenize(&second, back, &text)));
  EXPECT_EQ(detail->field, "tokens[0]");
  back.set_model("models/other");
  BoundedContext third;
  EXPECT_EQ(rig.generation->Detokenize(&third, back, &text).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(Generate, StopTokenIsDeliveredAndNamed) {
  Rig rig;
  const std::vector<int32_t> expected = Greedy({7}, 30);
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(7);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->add_stop_token_ids(expected[20]);
  BoundedContext context;
  auto reader = rig.generation->Generate(&context, request);
  v1::GenerateResponse response;
  std::vector<v1::GenerateResponse> all;
  while (reader->Read(&response)) all.push_back(response);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_FALSE(all.empty());
  // The last message may bring the end alone.
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].has_prompt(), i == 0);
    EXPECT_EQ(all[i].has_finish(), i + 1 == all.size());
    tokens.insert(tokens.end(), all[i].tokens().begin(), all[i].tokens().end());
  }
  EXPECT_EQ(all[0].prompt().model(), "models/toy");
  EXPECT_EQ(all[0].prompt().session(), "");
  EXPECT_EQ(all[0].prompt().first_index(), 0);
  const v1::FinishFacts& finish = all.back().finish();
  EXPECT_EQ(finish.finish_reason(), v1::FinishFacts::STOP);
  EXPECT_EQ(finish.stop_reason_case(), v1::FinishFacts::kStopTokenId);
  EXPECT_EQ(finish.stop_token_id(), expected[20]);
  const auto stop = std::find(expected.begin(), expected.end(), expected[20]);
  EXPECT_THAT(tokens, ElementsAreArray(expected.begin(), stop + 1));
  EXPECT_EQ(finish.token_count(), 1 + finish.generated_token_count());
}

TEST(Generate, ContextLimitEndsTheStream) {
  Rig rig({.append_capacity = 48});
  Collected got = Collect(*rig.client, {.tokens = {1}, .sampling = {.temperature = 0}});
  ASSERT_TRUE(got.result.ok()) << got.result.status();
  EXPECT_EQ(got.result->finish_reason, "CONTEXT_LIMIT");
}

TEST(Generate, ZeroTokensOnlyComputesThePrompt) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Collected stored =
      Collect(*rig.client,
              {.session = "s", .tokens = {1, 2, 3}, .stopping = {.max_tokens = 0}});
  ASSERT_TRUE(stored.result.ok()) << stored.result.status();
  EXPECT_TRUE(stored.tokens.empty());
  Collected got = Collect(
      *rig.client,
      {.session = "s", .stopping = {.max_tokens = 10}, .sampling = {.temperature = 0}});
  EXPECT_THAT(got.tokens, ElementsAreArray(Greedy({1, 2, 3}, 10)));
}

TEST(Generate, SessionRemembersOverCalls) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("anna", "").ok());
  std::vector<int32_t> history;
  for (int turn = 0; turn < 4; ++turn) {
    history.push_back(turn + 3);
    Collected got = Collect(*rig.client, {.session = "anna",
                                          .tokens = {turn + 3},
                                          .stopping = {.max_tokens = 9},
                                          .sampling = {.temperature = 0}});
    ASSERT_TRUE(got.result.ok()) << got.result.status();
    EXPECT_EQ(got.first_index, static_cast<int64_t>(history.size()));
    EXPECT_THAT(got.tokens, ElementsAreArray(Greedy(history, 9)));
    history.insert(history.end(), got.tokens.begin(), got.tokens.end());
    auto session = rig.client->GetSession("sessions/anna");
    ASSERT_TRUE(session.ok());
    EXPECT_EQ(session->position, static_cast<int64_t>(history.size()));
    EXPECT_EQ(session->state, "IDLE");
    EXPECT_GT(session->state_size_bytes, 0);
  }
}

TEST(Generate, TextWithoutTokenizerIsRefusedAndTokensWork) {
  Rig rig({.tokenizer = false});
  auto text = Collect(*rig.client, {.text = "abc"});
  EXPECT_EQ(text.result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(text.result.status())->reason, "NO_TOKENIZER");
  EXPECT_EQ(GetErrorDetail(text.result.status())->field, "prompt.text");
  auto tokens = Collect(*rig.client, {.tokens = {1}, .stopping = {.max_tokens = 5}});
  ASSERT_TRUE(tokens.result.ok());
  EXPECT_EQ(tokens.tokens.size(), 5u);
  EXPECT_EQ(tokens.text, "");
}

TEST(Generate, EightStreamsAtOnceAreEachTheirOwn) {
  Rig rig;
  rig.decoder.Allow(0);
  std::vector<std::thread> threads;
  std::vector<Collected> got(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto client = rig.NewClient();
      got[i] = Collect(*client, {.tokens = {i, i + 1},
                                 .stopping = {.max_tokens = 200 + i},
                                 .sampling = {.temperature = 0}});
    });
  }
  EXPECT_TRUE(Eventually([&] {
    const EngineStats stats = rig.engine->Stats();
    return stats.running + stats.queued == 8;
  }));
  rig.decoder.AllowAll();
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(got[i].result.ok()) << got[i].result.status();
    EXPECT_THAT(got[i].tokens, ElementsAreArray(Greedy({i, i + 1}, 200 + i)));
  }
  EXPECT_EQ(rig.decoder.largest_step(), 8u);
}

// Reads of a stream that began to be read only when the server could write no more.
class SlowReader : public ::testing::Test {
 protected:
  static constexpr int32_t kMany = 200000;

  // A stream that nobody reads, once the engine has paused it.
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> Stall(
      grpc::ClientContext& context) {
    v1::GenerateRequest request;
    request.mutable_prompt()->mutable_tokens()->add_ids(3);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(kMany);
    auto reader = rig_.generation->Generate(&context, request);
    EXPECT_TRUE(
        Eventually([&] { return rig_.engine->Stats().models[0].stalled == 1; }));
    EXPECT_LT(rig_.engine->Stats().tokens_generated, kMany);
    EXPECT_EQ(rig_.engine->Stats().running, 1);
    return reader;
  }

  Rig rig_{{.state = ToyState::kFixed, .engine = {.max_tokens = kMany}}};
};

TEST_F(SlowReader, PausesAloneAndLosesNothing) {
  BoundedContext context;
  auto reader = Stall(context);
  Collected other = Collect(
      *rig_.client,
      {.tokens = {9}, .stopping = {.max_tokens = 300}, .sampling = {.temperature = 0}});
  EXPECT_THAT(other.tokens, ElementsAreArray(Greedy({9}, 300, ToyState::kFixed)));

  std::vector<int32_t> tokens;
  v1::GenerateResponse response;
  int largest = 0;
  int messages = 0;
  while (reader->Read(&response)) {
    EXPECT_EQ(response.first_index(), 1 + static_cast<int64_t>(tokens.size()));
    tokens.insert(tokens.end(), response.tokens().begin(), response.tokens().end());
    largest = std::max(largest, response.tokens_size());
    ++messages;
  }
  const grpc::Status status = reader->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(largest, TokenStream::kCapacity);
  EXPECT_LT(messages, kMany);
  EXPECT_THAT(tokens, ElementsAreArray(Greedy({3}, kMany, ToyState::kFixed)));
}

TEST_F(SlowReader, CanCancel) {
  BoundedContext context;
  auto reader = Stall(context);
  context.TryCancel();
  EXPECT_TRUE(rig_.engine->WaitIdle(kPatience));
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SlowReader, DoesNotHoldUpAShutdown) {
  BoundedContext context;
  auto reader = Stall(context);
  const auto begin = std::chrono::steady_clock::now();
  rig_.server->Shutdown(std::chrono::milliseconds(100));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  EXPECT_TRUE(rig_.engine->WaitIdle(kPatience));
  context.TryCancel();
  reader->Finish();
}

// The first `count` tokens of the stream are read, then `end` ends it; afterwards the
// session must stand at a delivered token and go on as if nothing had happened.
void EndsEarlyAndGoesOn(const std::function<void(client::Client&)>& end,
                        absl::StatusCode expected) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  rig.decoder.Allow(10);
  std::atomic<size_t> read = 0;
  std::thread ender([&] {
    rig.decoder.AwaitHeld();
    // A call that has delivered nothing would leave nothing.
    while (read == 0) std::this_thread::yield();
    end(*rig.client);
  });
  auto result = rig.client->Generate({.session = "s",
                                      .tokens = {5},
                                      .stopping = {.max_tokens = 500},
                                      .sampling = {.temperature = 0}},
                                     [&](const GenerateChunk& chunk) {
                                       read += chunk.tokens.size();
                                       return true;
                                     });
  ender.join();
  EXPECT_EQ(result.status().code(), expected) << result.status();
  // Step by step, because the server may not have heard of the end yet.
  ASSERT_TRUE(Eventually([&] {
    rig.decoder.Allow(1);
    return rig.client->GetSession("s")->state == "IDLE";
  }));
  rig.decoder.AllowAll();
  const int64_t position = rig.client->GetSession("s")->position;
  EXPECT_GE(position, 1 + static_cast<int64_t>(read.load()));
  EXPECT_LT(position, 400);
  Collected rest = Collect(
      *rig.client,
      {.session = "s", .stopping = {.max_tokens = 30}, .sampling = {.temperature = 0}});
  ASSERT_TRUE(rest.result.ok()) << rest.result.status();
  const std::vector<int32_t> all = Greedy({5}, 500);
  EXPECT_EQ(rest.first_index, position);
  EXPECT_THAT(rest.tokens, ElementsAreArray(all.begin() + position - 1,
                                            all.begin() + position - 1 + 30));
}

TEST(Generate, CancelKeepsTheSessionAtADeliveredToken) {
  EndsEarlyAndGoesOn([](client::Client& client) { client.CancelCalls(); },
                     absl::StatusCode::kCancelled);
}

TEST(Generate, ReturningFalseCancels) {
  Rig rig;
  int chunks = 0;
  auto result = rig.client->Generate(
      {.tokens = {1}}, [&](const GenerateChunk&) { return ++chunks < 3; });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(chunks, 3);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
}

TEST(Generate, DeadlineEndsTheCallAndFreesTheSession) {
  Rig rig({.state = ToyState::kFixed});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  rig.decoder.Allow(0);
  for (int round = 0; round < 3; ++round) {
    v1::GenerateRequest request;
    request.set_session("sessions/s");
    request.mutable_prompt()->mutable_tokens()->add_ids(1);
    BoundedContext context(std::chrono::milliseconds(round == 0 ? 0 : 150));
    auto reader = rig.generation->Generate(&context, request);
    v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    // Step by step, because the server may not have heard of the end yet.
    ASSERT_TRUE(Eventually([&] {
      rig.decoder.Allow(1);
      return rig.client->GetSession("s")->state == "IDLE";
    }));
    rig.decoder.Allow(0);
  }
  rig.decoder.AllowAll();
  EXPECT_TRUE(Collect(*rig.client,
                      {.session = "s", .tokens = {1}, .stopping = {.max_tokens = 4}})
                  .result.ok());
}

TEST(Generate, ManyCancelledAtOnceLeaveNothing) {
  Rig rig;
  std::vector<std::thread> threads;
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto client = rig.NewClient();
      for (int round = 0; round < 20; ++round) {
        int left = (i * 7 + round) % 12;
        auto result =
            client->Generate({.tokens = {i},
                              .stopping = {.max_tokens = 900},
                              .sampling = {.temperature = 0}},
                             [&](const GenerateChunk&) { return left-- > 0; });
        if (absl::IsCancelled(result.status())) ++cancelled;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cancelled, 0);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  const EngineStats stats = rig.engine->Stats();
  EXPECT_EQ(stats.sessions, 0);
  EXPECT_EQ(stats.state_bytes, 0);
}

TEST(Generate, DeletingTheSessionEndsItsStream) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  rig.decoder.Allow(5);
  std::thread deleter([&] {
    rig.decoder.AwaitHeld();
    EXPECT_TRUE(rig.NewClient()->DeleteSession("s").ok());
    rig.decoder.AllowAll();
  });
  Collected got = Collect(*rig.client, {.session = "s", .tokens = {1}});
  deleter.join();
  EXPECT_EQ(got.result.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorDetail(got.result.status())->reason, "SESSION_DELETED");
}

TEST(Generate, ModelFailuresAreTypedAndHarmNobodyElse) {
  Rig rig;
  for (int32_t token : {ToyDecoder::kFailing, ToyDecoder::kThrowing,
                        ToyDecoder::kNotANumber, ToyDecoder::kOutOfMemory}) {
    Collected got =
        Collect(*rig.client, {.tokens = {1, token}, .stopping = {.max_tokens = 5}});
    ASSERT_FALSE(got.result.ok());
    auto detail = GetErrorDetail(got.result.status());
    ASSERT_TRUE(detail.has_value()) << got.result.status();
    EXPECT_FALSE(detail->reason.empty());
    EXPECT_EQ(got.result.status().message().find("toy"), absl::string_view::npos)
        << got.result.status();
  }
  EXPECT_THAT(Collect(*rig.client, {.tokens = {1},
                                    .stopping = {.max_tokens = 9},
                                    .sampling = {.temperature = 0}})
                  .tokens,
              ElementsAreArray(Greedy({1}, 9)));
}

}  // namespace
}  // namespace mnemon
