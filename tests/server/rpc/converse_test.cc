// SPDX-License-Identifier: MIT
// Generation.Converse over gRPC, by its messages.
#include <future>
#include <random>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

using Request = v1::ConverseRequest;
using Response = v1::ConverseResponse;
using Tokens = std::vector<int32_t>;

constexpr int64_t kMany = 1000000;

Request OpenOf(const std::string& session, int64_t credits) {
  Request request;
  if (!session.empty()) request.mutable_open()->set_session("sessions/" + session);
  request.mutable_open()->set_credit_token_count(credits);
  request.mutable_open()->mutable_sampling()->set_temperature(0);
  return request;
}

Request TurnOf(const Tokens& prompt, int32_t max_tokens) {
  Request request;
  Request::Turn& turn = *request.mutable_turn();
  auto& ids = *turn.mutable_prompt()->mutable_tokens()->mutable_ids();
  ids.Add(prompt.begin(), prompt.end());
  turn.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

Request CreditsOf(int64_t count) {
  Request request;
  request.mutable_credits()->set_token_count(count);
  return request;
}

Request Interrupt() {
  Request request;
  request.mutable_interrupt();
  return request;
}

Tokens Greedy(const Tokens& history, int64_t count) {
  return ToyContinuation(ToyState::kFixedAndAppend, history, count, {.temperature = 0});
}

void Append(Tokens& to, const Tokens& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// One stream. Its calls cannot hang: the context is bounded.
class Talk {
 public:
  explicit Talk(Rig& rig) : stream_(rig.generation->Converse(&context)) {}
  Talk(Rig& rig, const Request& open) : Talk(rig) {
    Send(open);
    Response response;
    if (stream_->Read(&response)) opened = response.opened();
  }
  ~Talk() { context.TryCancel(); }

  void Send(const Request& request) { stream_->Write(request); }
  void Close() { stream_->WritesDone(); }

  // Reads `count` tokens, and not one more.
  Tokens Read(int64_t count) {
    Tokens tokens;
    Response response;
    while (static_cast<int64_t>(tokens.size()) < count && stream_->Read(&response)) {
      EXPECT_TRUE(response.has_output());
      tokens.insert(tokens.end(), response.output().tokens().begin(),
                    response.output().tokens().end());
    }
    EXPECT_EQ(static_cast<int64_t>(tokens.size()), count);
    return tokens;
  }

  // The rest of a turn.
  struct Turn {
    Tokens tokens;
    std::string text;
    int64_t first_index = -1;
    v1::PromptFacts prompt;
    v1::FinishFacts finish;
  };
  Turn Finish() {
    Turn turn;
    Response response;
    while (!turn.finish.finish_reason() && stream_->Read(&response)) {
      const v1::GenerateResponse& output = response.output();
      EXPECT_TRUE(response.has_output());
      if (output.has_prompt()) turn.prompt = output.prompt();
      if (turn.first_index < 0) turn.first_index = output.first_index();
      turn.tokens.insert(turn.tokens.end(), output.tokens().begin(),
                         output.tokens().end());
      turn.text += output.text();
      if (output.has_finish()) turn.finish = output.finish();
    }
    EXPECT_NE(turn.finish.finish_reason(), v1::FinishFacts::FINISH_REASON_UNSPECIFIED);
    return turn;
  }

  // The history's tokens; -1: it was no answer to an interrupt.
  int64_t AwaitInterrupted(Tokens* before = nullptr) {
    Response response;
    while (stream_->Read(&response) && response.has_output()) {
      if (before == nullptr) continue;
      before->insert(before->end(), response.output().tokens().begin(),
                     response.output().tokens().end());
    }
    return response.has_interrupted() ? response.interrupted().token_count() : -1;
  }

  // The end of the stream, whatever comes before it.
  absl::Status End() {
    Response response;
    while (stream_->Read(&response)) {
      tokens_at_end += response.output().tokens_size();
      if (response.output().has_finish()) finished_at_end = true;
    }
    return client::FromGrpcStatus(stream_->Finish());
  }

  BoundedContext context;
  Response::Opened opened;
  int64_t tokens_at_end = 0;
  bool finished_at_end = false;

 private:
  const std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::string& reason, const std::string& field) {
  EXPECT_EQ(status.code(), code) << status;
  const ErrorDetail detail = GetErrorDetail(status).value_or(ErrorDetail{});
  EXPECT_EQ(detail.reason, reason) << status;
  EXPECT_EQ(detail.field, field) << status;
}

TEST(Converse, TurnsAreCallsOfGenerate) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  ASSERT_TRUE(rig.client->CreateSession("twin", "").ok());
  Request open = OpenOf("s", kMany);
  open.mutable_open()->mutable_sampling()->set_temperature(1.3);
  open.mutable_open()->mutable_sampling()->set_seed(7);
  open.mutable_open()->mutable_stopping()->set_max_tokens(30);
  Talk talk(rig, open);
  EXPECT_EQ(talk.opened.session(), "sessions/s");
  EXPECT_EQ(talk.opened.model(), "models/toy");
  EXPECT_EQ(talk.opened.token_count(), 0);
  client::GenerateOptions twin{
      .session = "twin", .max_tokens = 30, .temperature = 1.3, .seed = 7};
  int64_t history = 0;
  for (const char* const prompt : {"abc", "d e", ""}) {
    Request turn;
    turn.mutable_turn()->mutable_prompt()->set_text(prompt);
    talk.Send(turn);
    const Talk::Turn got = talk.Finish();
    twin.text = prompt;
    const Collected expected = Collect(*rig.client, twin);
    ASSERT_TRUE(expected.result.ok()) << expected.result.status();
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_EQ(got.text, expected.text);
    EXPECT_EQ(got.first_index, expected.first_index);
    EXPECT_EQ(got.prompt.session(), "sessions/s");
    EXPECT_EQ(got.prompt.first_index(), history);
    EXPECT_EQ(got.prompt.seed(), 7);
    history += static_cast<int64_t>(std::string_view(prompt).size()) + 30;
    EXPECT_EQ(got.finish.token_count(), history);
    EXPECT_EQ(got.finish.generated_token_count(), 30);
    EXPECT_EQ(rig.client->GetSession("s")->position, history);
  }
  // A turn's own sampling and stopping count for it alone.
  Request own = TurnOf({5}, 4);
  own.mutable_turn()->mutable_sampling()->set_temperature(0);
  talk.Send(own);
  EXPECT_EQ(talk.Finish().tokens.size(), 4u);
  talk.Send(TurnOf({5}, 2));
  EXPECT_EQ(talk.Finish().prompt.seed(), 7);
  talk.Close();
  EXPECT_TRUE(talk.End().ok());
}

TEST(Converse, WithoutASessionItHasOneOfItsOwn) {
  Rig rig;
  {
    Talk talk(rig, OpenOf("", kMany));
    EXPECT_EQ(talk.opened.session(), "");
    EXPECT_EQ(talk.opened.model(), "models/toy");
    Tokens history;
    for (const Tokens& prompt : {Tokens{1, 2}, Tokens{3}}) {
      talk.Send(TurnOf(prompt, 20));
      const Talk::Turn got = talk.Finish();
      Append(history, prompt);
      EXPECT_EQ(got.tokens, Greedy(history, 20));
      EXPECT_EQ(got.prompt.session(), "");
      Append(history, got.tokens);
    }
    EXPECT_EQ(rig.client->ListSessions()->size(), 0u);
    EXPECT_EQ(rig.engine->Stats().sessions, 1);
    talk.Close();
    EXPECT_TRUE(talk.End().ok());
    EXPECT_EQ(rig.engine->Stats().sessions, 0);
  }
  Talk lost(rig, OpenOf("", 0));
  lost.Send(TurnOf({1}, 500));
  lost.context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().sessions == 0; }));
  EXPECT_TRUE(rig.engine->WaitIdle(seconds(10)));
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().state_bytes == 0; }));
}

TEST(Converse, CreditsAreExactToTheToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", 3));
  talk.Send(TurnOf({1, 2}, 900));
  Tokens tokens = talk.Read(3);
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    // So that more waits than is granted, and the session pauses.
    if (round % 8 == 0) {
      EXPECT_TRUE(Eventually([&] {
        const EngineStats now = rig.engine->Stats();
        return now.models[0].stalled == 1 &&
               now.tokens_generated == static_cast<int64_t>(tokens.size()) + 64;
      }));
    }
    const int64_t first = 1 + random() % 9, second = 1 + random() % 20;
    talk.Send(CreditsOf(first));
    talk.Send(CreditsOf(second));
    Append(tokens, talk.Read(first + second));
  }
  talk.Send(Interrupt());
  Tokens more;
  EXPECT_EQ(talk.AwaitInterrupted(&more), static_cast<int64_t>(2 + tokens.size()));
  EXPECT_THAT(more, ElementsAreArray(Tokens{}));
  EXPECT_EQ(tokens, Greedy({1, 2}, static_cast<int64_t>(tokens.size())));
}

TEST(Converse, AFinishNeedsNoCredits) {
  Rig rig;
  Talk talk(rig, OpenOf("", 10));
  talk.Send(TurnOf({1}, 10));
  EXPECT_EQ(talk.Finish().tokens.size(), 10u);
  talk.Send(TurnOf({1, 2, 3}, 0));
  EXPECT_EQ(talk.Finish().finish.token_count(), 14);
  // Those that are left go on to the next turn.
  talk.Send(CreditsOf(7));
  talk.Send(TurnOf({1}, 4));
  EXPECT_EQ(talk.Finish().tokens.size(), 4u);
  talk.Send(TurnOf({1}, 4));
  talk.Read(3);
  talk.Send(CreditsOf(1));
  EXPECT_EQ(talk.Finish().tokens.size(), 1u);
}

TEST(Converse, AnInterruptEndsTheTurnAtTheLastDeliveredToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", 0));
  talk.Send(Interrupt());
  EXPECT_EQ(talk.AwaitInterrupted(), 0);
  Tokens history;
  for (const int64_t delivered : {0, 1, 17, 60, 64, 70}) {
    for (const int32_t max_tokens : {100, 80}) {
      talk.Send(TurnOf({1, 2}, max_tokens));
      if (delivered > 0) talk.Send(CreditsOf(delivered));
      const Tokens got = talk.Read(delivered);
      // All is computed, or the session has paused.
      EXPECT_TRUE(Eventually([&] {
        const EngineStats now = rig.engine->Stats();
        return now.models[0].stalled == 1 || now.running == 0;
      }));
      talk.Send(Interrupt());
      talk.Send(Interrupt());
      if (delivered > 0) {
        Append(history, {1, 2});
        EXPECT_EQ(got, Greedy(history, delivered));
        Append(history, got);
      }
      ASSERT_EQ(talk.AwaitInterrupted(), static_cast<int64_t>(history.size()));
      ASSERT_EQ(talk.AwaitInterrupted(), static_cast<int64_t>(history.size()));
      EXPECT_EQ(rig.client->GetSession("s")->position,
                static_cast<int64_t>(history.size()));
    }
  }
  talk.Send(CreditsOf(20));
  talk.Send(TurnOf({9}, 20));
  Append(history, {9});
  EXPECT_EQ(talk.Finish().tokens, Greedy(history, 20));
}

TEST(Converse, AnInterruptEndsATurnThatWaitsOrComputes) {
  Rig rig({.engine = {.running = 1}});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  ASSERT_TRUE(rig.client->CreateSession("other", "").ok());
  Talk talk(rig, OpenOf("s", 0));
  rig.decoder.Allow(0);
  talk.Send(TurnOf({1, 2, 3}, 10));
  rig.decoder.AwaitHeld();
  talk.Send(Interrupt());
  rig.decoder.AllowAll();
  EXPECT_EQ(talk.AwaitInterrupted(), 0);
  rig.decoder.Allow(0);
  std::future<Collected> first = std::async(std::launch::async, [&] {
    return Collect(*rig.NewClient(),
                   {.session = "other", .tokens = {1}, .max_tokens = 3});
  });
  rig.decoder.AwaitHeld();
  talk.Send(TurnOf({1, 2, 3}, 10));
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 1; }));
  talk.Send(Interrupt());
  EXPECT_EQ(talk.AwaitInterrupted(), 0);
  rig.decoder.AllowAll();
  EXPECT_TRUE(first.get().result.ok());
  talk.Send(CreditsOf(10));
  talk.Send(TurnOf({4}, 10));
  EXPECT_EQ(talk.Finish().tokens, Greedy({4}, 10));
}

// Whatever the client does and when, the history is what it was told.
TEST(Converse, AnyOrderOfTurnsCreditsAndInterrupts) {
  Rig rig;
  std::mt19937 random(11);
  for (int run = 0; run < 12; ++run) {
    const std::string id = StrCat("s", run);
    ASSERT_TRUE(rig.client->CreateSession(id, "").ok());
    Talk talk(rig, OpenOf(id, kMany));
    Tokens history;
    while (history.size() < 500) {
      const Tokens prompt(1 + random() % 5, static_cast<int32_t>(random() % 30));
      const auto most = static_cast<int32_t>(random() % 120);
      talk.Send(TurnOf(prompt, most));
      if (random() % 3 == 0) {
        Append(history, prompt);
        const Talk::Turn got = talk.Finish();
        ASSERT_EQ(got.tokens, Greedy(history, most));
        Append(history, got.tokens);
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      talk.Send(Interrupt());
      Tokens got;
      const int64_t tokens = talk.AwaitInterrupted(&got);
      // It may have come behind the finish, even of no token.
      if (tokens > static_cast<int64_t>(history.size())) {
        Append(history, prompt);
        ASSERT_EQ(got, Greedy(history, static_cast<int64_t>(got.size())));
        Append(history, got);
      }
      ASSERT_EQ(tokens, static_cast<int64_t>(history.size()));
    }
    talk.Close();
    ASSERT_TRUE(talk.End().ok());
    ASSERT_EQ(rig.client->GetSession(id)->position,
              static_cast<int64_t>(history.size()));
  }
}

TEST(Converse, MessagesOutOfOrderEndTheStream) {
  Rig rig;
  const auto end = [&](const std::vector<Request>& messages, bool close = true) {
    Talk talk(rig);
    for (const Request& message : messages) talk.Send(message);
    if (close) talk.Close();
    return talk.End();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Request open = OpenOf("", kMany);
  ExpectError(end({}), kInvalid, "INVALID_VALUE", "open");
  for (const Request& message :
       {TurnOf({1}, 1), CreditsOf(1), Interrupt(), Request()}) {
    ExpectError(end({message}, false), kInvalid, "INVALID_VALUE", "open");
  }
  ExpectError(end({open, open}, false), kInvalid, "INVALID_VALUE", "open");
  ExpectError(end({open, Request()}, false), kInvalid, "INVALID_VALUE", "request");
  EXPECT_TRUE(end({open}).ok());
  ExpectError(end({OpenOf("", 0), TurnOf({1}, 9), TurnOf({1}, 9)}, false),
              absl::StatusCode::kAborted, "TURN_RUNNING", "turn");
  ExpectError(end({OpenOf("", -1)}, false), kInvalid, "INVALID_VALUE",
              "open.credit_token_count");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  ExpectError(end({OpenOf("", kMost + 1)}, false), kInvalid, "INVALID_VALUE",
              "open.credit_token_count");
  ExpectError(end({OpenOf("", kMost), CreditsOf(1)}, false), kInvalid, "INVALID_VALUE",
              "credits.token_count");
  for (const int64_t count :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    ExpectError(end({OpenOf("", 1), CreditsOf(count)}, false), kInvalid,
                "INVALID_VALUE", "credits.token_count");
  }
  EXPECT_TRUE(end({OpenOf("", kMost - 1), CreditsOf(1)}).ok());
  EXPECT_TRUE(rig.engine->WaitIdle(seconds(10)));
  EXPECT_EQ(rig.engine->Stats().sessions, 0);
}

TEST(Converse, ErrorsNameTheField) {
  Rig rig({.models = {"toy", "more"}});
  ASSERT_TRUE(rig.client->CreateSession("s", "toy").ok());
  const auto end = [&](const Request& open, const Request& turn) {
    Talk talk(rig);
    talk.Send(open);
    talk.Send(turn);
    return talk.End();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Request good = OpenOf("s", 1), turn = TurnOf({1}, 1);
  Request open = good;
  open.mutable_open()->set_session("s");
  ExpectError(end(open, turn), kInvalid, "INVALID_VALUE", "open.session");
  open.mutable_open()->set_session("sessions/nobody");
  ExpectError(end(open, turn), absl::StatusCode::kNotFound, "SESSION_NOT_FOUND", "");
  open = good;
  open.mutable_open()->set_model("models/more");
  ExpectError(end(open, turn), absl::StatusCode::kFailedPrecondition, "MODEL_MISMATCH",
              "open.model");
  open.mutable_open()->set_model("models/absent");
  ExpectError(end(open, turn), absl::StatusCode::kNotFound, "MODEL_NOT_FOUND",
              "open.model");
  ExpectError(end(OpenOf("", 1), turn), kInvalid, "INVALID_VALUE", "open.model");
  open = good;
  open.mutable_open()->set_priority(v1::BATCH);
  ExpectError(end(open, turn), absl::StatusCode::kUnimplemented, "FIELD_UNIMPLEMENTED",
              "open.priority");
  open = good;
  open.mutable_open()->mutable_sampling()->set_temperature(-1);
  ExpectError(end(open, turn), kInvalid, "INVALID_VALUE", "open.sampling.temperature");
  open = good;
  open.mutable_open()->mutable_output()->set_top_candidate_count(21);
  ExpectError(end(open, turn), kInvalid, "INVALID_VALUE",
              "open.output.top_candidate_count");
  Request wrong = turn;
  wrong.mutable_turn()->mutable_sampling()->set_top_p(2);
  ExpectError(end(good, wrong), kInvalid, "INVALID_VALUE", "turn.sampling.top_p");
  wrong = turn;
  wrong.mutable_turn()->mutable_stopping()->set_max_tokens(-1);
  ExpectError(end(good, wrong), kInvalid, "INVALID_VALUE", "turn.stopping.max_tokens");
  wrong.mutable_turn()->mutable_stopping()->set_ignore_eos(true);
  ExpectError(end(good, wrong), absl::StatusCode::kUnimplemented, "FIELD_UNIMPLEMENTED",
              "turn.stopping.ignore_eos");
  wrong = turn;
  wrong.mutable_turn()->mutable_prompt()->mutable_tokens()->add_ids(40);
  ExpectError(end(good, wrong), kInvalid, "INVALID_VALUE", "turn.prompt.tokens.ids[1]");
  wrong.mutable_turn()->mutable_prompt()->set_text("a?");
  ExpectError(end(good, wrong), kInvalid, "UNKNOWN_CHARACTER", "turn.prompt.text");
  wrong = turn;
  wrong.mutable_turn()->set_request_id("x");
  ExpectError(end(good, wrong), kInvalid, "INVALID_VALUE", "turn.request_id");
  EXPECT_EQ(rig.client->GetSession("s")->position, 0);
}

TEST(Converse, ARequestIdIsTakenOnce) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Request turn = TurnOf({1}, 3);
  turn.mutable_turn()->set_request_id("01234567-89ab-cdef-0123-456789abcdef");
  Talk talk(rig, OpenOf("s", kMany));
  talk.Send(turn);
  talk.Finish();
  Request other = TurnOf({1}, 3);
  talk.Send(other);
  talk.Finish();
  talk.Send(turn);
  EXPECT_EQ(GetErrorDetail(talk.End())->reason, "REQUEST_REPEATED");
  EXPECT_EQ(rig.client->GetSession("s")->position, 8);
}

TEST(Converse, AHalfCloseLetsTheTurnFinish) {
  Rig rig;
  Talk talk(rig, OpenOf("", kMany));
  rig.decoder.Allow(0);
  talk.Send(TurnOf({1}, 100));
  talk.Close();
  rig.decoder.AwaitHeld();
  rig.decoder.AllowAll();
  EXPECT_EQ(talk.Finish().tokens.size(), 100u);
  EXPECT_TRUE(talk.End().ok());

  Talk exact(rig, OpenOf("", 5));
  exact.Send(TurnOf({1}, 5));
  exact.Close();
  EXPECT_TRUE(exact.End().ok());
  EXPECT_EQ(exact.tokens_at_end, 5);
  EXPECT_TRUE(exact.finished_at_end);

  // Nobody can grant what is missing.
  Talk short_of(rig, OpenOf("", 4));
  short_of.Send(TurnOf({1}, 5));
  short_of.Close();
  ExpectError(short_of.End(), absl::StatusCode::kFailedPrecondition, "NO_CREDITS",
              "credits.token_count");
  EXPECT_EQ(short_of.tokens_at_end, 4);
}

TEST(Converse, AFailedTurnEndsTheStreamBehindItsTokens) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", kMany));
  talk.Send(TurnOf({1}, 3));
  talk.Finish();
  talk.Send(TurnOf({ToyDecoder::kFailing}, 3));
  EXPECT_EQ(talk.End().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(rig.client->GetSession("s")->position, 4);

  Talk deleted(rig, OpenOf("s", 3));
  deleted.Send(TurnOf({1}, 900));
  deleted.Read(3);
  ASSERT_TRUE(rig.client->DeleteSession("s").ok());
  deleted.Send(CreditsOf(kMany));
  EXPECT_EQ(GetErrorDetail(deleted.End())->reason, "SESSION_DELETED");
}

TEST(Converse, ALostStreamLeavesTheSessionAtTheLastDeliveredToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Tokens history = {1, 2};
  {
    Talk talk(rig, OpenOf("s", 9));
    talk.Send(TurnOf(history, 900));
    Append(history, talk.Read(9));
  }
  EXPECT_TRUE(rig.engine->WaitIdle(seconds(10)));
  EXPECT_EQ(rig.client->GetSession("s")->position, 11);
  Talk talk(rig, OpenOf("s", kMany));
  EXPECT_EQ(talk.opened.token_count(), 11);
  talk.Send(TurnOf({3}, 20));
  Append(history, {3});
  EXPECT_EQ(talk.Finish().tokens, Greedy(history, 20));
}

TEST(Converse, EachTurnCountsForTheRateLimit) {
  Rig rig({.rpc = {.max_calls_per_second = 0.001}});
  Talk talk(rig, OpenOf("", kMany));
  talk.Send(TurnOf({1}, 2));
  talk.Finish();
  talk.Send(TurnOf({1}, 2));
  EXPECT_EQ(GetErrorDetail(talk.End())->reason, "RATE_LIMIT");
  EXPECT_EQ(GetErrorDetail(Talk(rig).End())->reason, "RATE_LIMIT");
}

TEST(Converse, IsOneCallOfTheRecord) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.rpc = {.observer = observed}});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", kMany));
  talk.Send(TurnOf({1, 2}, 5));
  talk.Finish();
  talk.Send(TurnOf({1}, 6));
  talk.Finish();
  talk.Close();
  ASSERT_TRUE(talk.End().ok());
  ASSERT_TRUE(Eventually([&] { return observed->Ended().size() == 2; }));
  const RpcRecord record = observed->Ended().back();
  EXPECT_EQ(record.method, "mnemon.v1.Generation/Converse");
  EXPECT_EQ(record.session, "s");
  EXPECT_EQ(record.model, "toy");
  EXPECT_EQ(record.prompt_tokens, 3);
  EXPECT_EQ(record.generated_tokens, 11);
  EXPECT_EQ(record.status, absl::StatusCode::kOk);
}

// gRPC reports the end of its messages first.
TEST(Converse, ALostStreamIsRecordedAsCancelled) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.rpc = {.observer = observed}});
  for (const int64_t credits : {0, 5}) {
    Talk talk(rig, OpenOf("", credits));
    if (credits > 0) {
      talk.Send(TurnOf({1}, 900));
      talk.Read(credits);
    }
    talk.context.TryCancel();
    EXPECT_FALSE(talk.End().ok());
  }
  ASSERT_TRUE(Eventually([&] { return observed->Ended().size() == 2; }));
  for (const RpcRecord& record : observed->Ended()) {
    EXPECT_EQ(record.status, absl::StatusCode::kCancelled) << record.reason;
    EXPECT_EQ(record.reason, "");
  }
}

class IdleConversation : public ::testing::Test {
 protected:
  static constexpr milliseconds kIdle{300};

  // Ends idle callers until the stream has ended.
  absl::Status EndOf(Talk& talk) {
    std::future<absl::Status> end =
        std::async(std::launch::async, [&] { return talk.End(); });
    while (end.wait_for(milliseconds(5)) == std::future_status::timeout) {
      rig_.server->EndIdleCalls();
    }
    return end.get();
  }

  Rig rig_{{.engine = {.idle_timeout = kIdle}}};
};

TEST_F(IdleConversation, EndsBeforeItIsOpenAndBetweenTurns) {
  const auto begin = std::chrono::steady_clock::now();
  Talk unopened(rig_);
  ExpectError(EndOf(unopened), absl::StatusCode::kAborted, "CALLER_IDLE", "");
  Talk opened(rig_, OpenOf("", kMany));
  ExpectError(EndOf(opened), absl::StatusCode::kAborted, "CALLER_IDLE", "");
  Talk between(rig_, OpenOf("", kMany));
  between.Send(TurnOf({1}, 5));
  between.Finish();
  ExpectError(EndOf(between), absl::StatusCode::kAborted, "CALLER_IDLE", "");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 3 * kIdle);
  EXPECT_EQ(rig_.engine->Stats().sessions, 0);
}

TEST_F(IdleConversation, EndsATurnWithoutCredits) {
  ASSERT_TRUE(rig_.client->CreateSession("s", "").ok());
  int64_t position = 0;
  for (const int32_t max_tokens : {10, 900}) {
    Talk talk(rig_, OpenOf("s", 3));
    talk.Send(TurnOf({1}, max_tokens));
    talk.Read(3);
    ExpectError(EndOf(talk), absl::StatusCode::kAborted, "CALLER_IDLE", "");
    EXPECT_TRUE(rig_.engine->WaitIdle(seconds(10)));
    position += 4;
    EXPECT_EQ(rig_.client->GetSession("s")->position, position);
  }
  // The engine ends it too, where nobody looks for idle callers.
  Talk talk(rig_, OpenOf("s", 3));
  talk.Send(TurnOf({1}, 900));
  ExpectError(talk.End(), absl::StatusCode::kAborted, "CALLER_IDLE", "");
}

TEST_F(IdleConversation, DoesNotEndWhileItWaitsForTheModelOrCreditsCome) {
  Talk talk(rig_, OpenOf("", 100));
  rig_.decoder.Allow(0);
  talk.Send(TurnOf({1}, 10));
  rig_.decoder.AwaitHeld();
  std::this_thread::sleep_for(2 * kIdle);
  rig_.server->EndIdleCalls();
  rig_.decoder.AllowAll();
  EXPECT_EQ(talk.Finish().tokens.size(), 10u);
  talk.Send(TurnOf({1}, 100));
  talk.Read(90);
  for (int i = 0; i < 9; ++i) {
    std::this_thread::sleep_for(kIdle / 6);
    rig_.server->EndIdleCalls();
    talk.Send(CreditsOf(1));
    talk.Read(1);
  }
  talk.Send(CreditsOf(1));
  EXPECT_EQ(talk.Finish().tokens.size(), 1u);
}

TEST(ConverseDrain, EndsAtOnceBetweenTurnsAndBehindTheFinishOfOne) {
  Rig rig;
  Talk idle(rig, OpenOf("", kMany));
  Talk busy(rig, OpenOf("", kMany));
  rig.decoder.Allow(0);
  busy.Send(TurnOf({1}, 100));
  rig.decoder.AwaitHeld();
  std::future<void> closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(seconds(30)); });
  ExpectError(idle.End(), absl::StatusCode::kUnavailable, "DRAINING", "");
  EXPECT_EQ(closed.wait_for(seconds(0)), std::future_status::timeout);
  rig.decoder.AllowAll();
  EXPECT_EQ(busy.Finish().tokens.size(), 100u);
  ExpectError(busy.End(), absl::StatusCode::kUnavailable, "DRAINING", "");
  EXPECT_EQ(closed.wait_for(seconds(10)), std::future_status::ready);
}

TEST(ConverseDrain, ATurnEndsWithTheGraceAtItsLastDeliveredToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", 5));
  talk.Send(TurnOf({1}, 900));
  talk.Read(5);
  rig.server->Shutdown(milliseconds(0));
  ExpectError(talk.End(), absl::StatusCode::kUnavailable, "DRAINING", "");
  EXPECT_EQ(talk.tokens_at_end, 0);
  EXPECT_TRUE(rig.engine->WaitIdle(seconds(10)));
  EXPECT_EQ(rig.engine->GetSession("s")->position, 6);
}

}  // namespace
}  // namespace mnemon
