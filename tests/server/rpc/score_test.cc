// SPDX-License-Identifier: MIT
// Generation.Score over gRPC, by the client library and by its messages.
#include <cmath>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using client::ScoreOptions;
using client::TokenLogprobs;

struct Scored {
  absl::StatusOr<client::ScoreResult> result = absl::UnknownError("not run");
  std::vector<TokenLogprobs> tokens;
};

Scored Score(Rig& rig, const ScoreOptions& options) {
  Scored scored;
  scored.result =
      rig.client->Score(options, [&](const std::vector<TokenLogprobs>& tokens) {
        scored.tokens.insert(scored.tokens.end(), tokens.begin(), tokens.end());
        return true;
      });
  return scored;
}

// Log-probabilities of generated tokens are those that Score gives to the same tokens.
TEST(Score, AgreesWithGenerate) {
  Rig rig;
  std::vector<TokenLogprobs> sampled;
  client::GenerateOptions options{
      .tokens = {4, 5, 6}, .stopping = {.max_tokens = 200}, .sampling = {.seed = 3}};
  options.logprobs = {.wanted = true, .most_likely = 2, .ids = {39}};
  std::vector<int32_t> all = options.tokens;
  ASSERT_TRUE(rig.client
                  ->Generate(options,
                             [&](const client::GenerateChunk& chunk) {
                               all.insert(all.end(), chunk.tokens.begin(),
                                          chunk.tokens.end());
                               sampled.insert(sampled.end(), chunk.logprobs.begin(),
                                              chunk.logprobs.end());
                               return true;
                             })
                  .ok());
  const Scored scored = Score(rig, {.most_likely = 2, .ids = {39}, .tokens = all});
  ASSERT_TRUE(scored.result.ok()) << scored.result.status();
  ASSERT_EQ(scored.tokens.size(), all.size() - 1);
  EXPECT_EQ(scored.result->tokens, static_cast<int64_t>(all.size() - 1));
  double sum = 0;
  for (const TokenLogprobs& one : scored.tokens) sum += one.logprob;
  EXPECT_EQ(scored.result->logprob_sum, sum);
  for (size_t i = 0; i < sampled.size(); ++i) {
    const TokenLogprobs& score = scored.tokens[i + 2];
    EXPECT_EQ(score.index, sampled[i].index);
    EXPECT_EQ(score.token, sampled[i].token);
    EXPECT_EQ(score.logprob, sampled[i].logprob);
    ASSERT_EQ(score.candidates.size(), 3u);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(score.candidates[c].token, sampled[i].candidates[c].token);
      EXPECT_EQ(score.candidates[c].logprob, sampled[i].candidates[c].logprob);
    }
  }
}

TEST(Score, TakesATextOfAnyLength) {
  Rig rig({.state = ToyState::kFixed});
  // Longer than one message of the client, with characters of two bytes at its cuts.
  std::string text = "a";
  while (text.size() < 140000) text += "\xc3\xa9";
  const Scored scored = Score(rig, {.text = text});
  ASSERT_TRUE(scored.result.ok()) << scored.result.status();
  const size_t tokens = 1 + (text.size() - 1) / 2;
  EXPECT_EQ(scored.result->tokens, static_cast<int64_t>(tokens - 1));
  ASSERT_EQ(scored.tokens.size(), tokens - 1);
  EXPECT_EQ(scored.tokens.back().index, static_cast<int64_t>(tokens - 1));
  EXPECT_EQ(scored.tokens.back().token, 39);
}

TEST(Score, OnASessionOnlyCommitChangesIt) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  ASSERT_TRUE(Collect(*rig.client,
                      {.session = "s", .text = "abc", .stopping = {.max_tokens = 0}})
                  .result.ok());
  const Scored dry = Score(rig, {.session = "s", .text = "def"});
  ASSERT_TRUE(dry.result.ok()) << dry.result.status();
  EXPECT_EQ(dry.result->tokens, 3);
  EXPECT_EQ(rig.client->GetSession("s")->position, 3);
  const Scored kept = Score(rig, {.session = "s", .commit = true, .text = "def"});
  ASSERT_TRUE(kept.result.ok());
  EXPECT_EQ(kept.result->logprob_sum, dry.result->logprob_sum);
  EXPECT_EQ(rig.client->GetSession("s")->position, 6);
  const Collected got = Collect(*rig.client, {.session = "s",
                                              .tokens = {9},
                                              .stopping = {.max_tokens = 20},
                                              .sampling = {.temperature = 0}});
  EXPECT_EQ(got.tokens,
            ToyContinuation(ToyState::kFixedAndAppend, {13, 14, 15, 16, 17, 18, 9}, 20,
                            {.temperature = 0}));
}

// A stream that is lost anywhere before its end leaves the session as it was: also
// where gRPC reports the end of its messages before the cancellation.
TEST(Score, ACommitJoinsAtItsEndOrNotAtAll) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.service = {.observer = observed}});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  ASSERT_TRUE(Eventually([&] { return observed->Ended().size() == 1; }));
  v1::ScoreRequest open, part;
  open.mutable_open()->set_session("sessions/s");
  open.mutable_open()->set_commit(true);
  open.mutable_open()->set_request_id("01234567-89ab-cdef-0123-456789abcdef");
  open.mutable_open()->set_expected_token_count(0);
  part.mutable_part()->set_text("abc");
  v1::ScoreResponse response;
  for (int round = 0; round < 60; ++round) {
    const size_t ended = observed->Ended().size();
    BoundedContext context;
    auto stream = rig.generation->Score(&context);
    stream->Write(open);
    for (int i = 0; i < 1 + round % 3; ++i) {
      ASSERT_TRUE(stream->Write(part));
      ASSERT_TRUE(stream->Read(&response));
    }
    context.TryCancel();
    stream->Finish();
    ASSERT_TRUE(Eventually([&] { return observed->Ended().size() > ended; }));
    EXPECT_EQ(observed->Ended().back().status, absl::StatusCode::kCancelled);
    ASSERT_TRUE(rig.engine->WaitIdle(kPatience));
    ASSERT_EQ(rig.engine->GetSession("s")->position, 0) << round;
  }
  std::vector<double> sums;
  for (int round = 0; round < 2; ++round) {
    BoundedContext context;
    auto stream = rig.generation->Score(&context);
    stream->Write(open);
    stream->Write(part);
    stream->WritesDone();
    while (stream->Read(&response)) {
      if (response.has_summary()) sums.push_back(response.summary().logprob_sum());
    }
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_EQ(rig.client->GetSession("s")->position, 3);
  }
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST(Score, WithNothingToScoreIsNothing) {
  Rig rig;
  for (const std::vector<int32_t>& tokens : {std::vector<int32_t>{}, {5}}) {
    const Scored scored = Score(rig, {.tokens = tokens});
    ASSERT_TRUE(scored.result.ok()) << scored.result.status();
    EXPECT_EQ(scored.result->tokens, 0);
    EXPECT_EQ(scored.result->logprob_sum, 0);
  }
}

TEST(Score, ReturningFalseCancels) {
  Rig rig({.state = ToyState::kFixed});
  int chunks = 0;
  const auto result = rig.client->Score(
      {.text = std::string(100000, 'a')},
      [&](const std::vector<TokenLogprobs>&) { return ++chunks < 3; });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(chunks, 3);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  EXPECT_EQ(rig.engine->Stats().state_bytes, 0);
}

// The status of a call that sends these messages.
absl::Status Send(Rig& rig, const std::vector<v1::ScoreRequest>& messages) {
  BoundedContext context;
  auto stream = rig.generation->Score(&context);
  for (const v1::ScoreRequest& message : messages) stream->Write(message);
  stream->WritesDone();
  v1::ScoreResponse response;
  while (stream->Read(&response)) {
  }
  return client::FromGrpcStatus(stream->Finish());
}

TEST(Score, ErrorsNameTheField) {
  Rig rig;
  v1::ScoreRequest open;
  open.mutable_open();
  v1::ScoreRequest part;
  part.mutable_part()->set_text("abc");
  const auto expect = [&](const std::vector<v1::ScoreRequest>& messages,
                          absl::StatusCode code, const std::string& reason,
                          const std::string& field) {
    const absl::Status status = Send(rig, messages);
    EXPECT_EQ(status.code(), code) << status;
    const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
    EXPECT_EQ(detail.reason, reason) << status;
    EXPECT_EQ(detail.field, field) << status;
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_TRUE(Send(rig, {open, part, part}).ok());
  expect({}, kInvalid, "INVALID_VALUE", "open");
  expect({part}, kInvalid, "INVALID_VALUE", "open");
  expect({open, open}, kInvalid, "INVALID_VALUE", "open");
  expect({open, part, v1::ScoreRequest()}, kInvalid, "INVALID_VALUE", "part");
  v1::ScoreRequest wrong = part;
  wrong.mutable_part()->set_text("a?");
  expect({open, part, wrong}, kInvalid, "UNKNOWN_CHARACTER", "part");
  wrong.mutable_part()->mutable_tokens()->add_ids(40);
  expect({open, wrong}, kInvalid, "INVALID_VALUE", "part[0]");
  wrong = open;
  wrong.mutable_open()->set_session("nobody");
  expect({wrong}, kInvalid, "INVALID_VALUE", "open.session");
  wrong.mutable_open()->set_session("sessions/nobody");
  expect({wrong}, absl::StatusCode::kNotFound, "SESSION_NOT_FOUND", "");
  wrong = open;
  wrong.mutable_open()->set_request_id("01234567-89ab-cdef-0123-456789abcdef");
  expect({wrong}, kInvalid, "INVALID_VALUE", "open.request_id");
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  wrong = open;
  wrong.mutable_open()->set_session("sessions/s");
  wrong.mutable_open()->set_expected_token_count(1);
  expect({wrong}, absl::StatusCode::kAborted, "TOKEN_COUNT_MISMATCH",
         "open.expected_token_count");
  wrong = open;
  wrong.mutable_open()->mutable_output()->set_top_candidate_count(21);
  expect({wrong}, kInvalid, "INVALID_VALUE", "open.output.top_candidate_count");
  wrong = open;
  wrong.mutable_open()->mutable_output()->set_prompt_logprobs(true);
  expect({wrong}, absl::StatusCode::kUnimplemented, "FIELD_UNIMPLEMENTED",
         "open.output.prompt_logprobs");
  wrong = part;
  wrong.mutable_part()->set_text(std::string(2000, 'a'));
  expect({open, wrong}, absl::StatusCode::kFailedPrecondition, "CONTEXT_LIMIT", "part");
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
}

// Tokens are computed in chunks of at most 64: those before the one that fails count.
TEST(Score, ScoresBeforeAnErrorAreSent) {
  Rig rig;
  std::vector<int32_t> text(100, 7);
  text[85] = ToyDecoder::kFailing;
  const Scored scored = Score(rig, {.tokens = text});
  EXPECT_EQ(scored.result.status().code(), absl::StatusCode::kInternal);
  EXPECT_GE(scored.tokens.size(), 64u);
  EXPECT_LT(scored.tokens.size(), 85u);
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    EXPECT_EQ(scored.tokens[i].index, static_cast<int64_t>(i + 1));
  }
}

TEST(Score, AnOpenCallEndsWithTheServer) {
  Rig rig;
  BoundedContext context;
  auto stream = rig.generation->Score(&context);
  v1::ScoreRequest request;
  request.mutable_open();
  ASSERT_TRUE(stream->Write(request));
  request.mutable_part()->set_text("abc");
  ASSERT_TRUE(stream->Write(request));
  v1::ScoreResponse response;
  ASSERT_TRUE(stream->Read(&response));
  rig.server->Shutdown(std::chrono::milliseconds(0));
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(Score, ADeadlineEndsACallThatWaitsForParts) {
  Rig rig;
  BoundedContext context(std::chrono::milliseconds(50));
  auto stream = rig.generation->Score(&context);
  v1::ScoreRequest request;
  request.mutable_open();
  stream->Write(request);
  v1::ScoreResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
}

}  // namespace
}  // namespace mnemon
