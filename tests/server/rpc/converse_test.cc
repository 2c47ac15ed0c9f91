// SPDX-License-Identifier: MIT
// Turns of Generation.Converse: what they compute, and what is refused.
#include "tests/fakes/patience.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/talk.h"

namespace mnemon::converse {
namespace {

using std::chrono::seconds;

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
  client::GenerateOptions twin{.session = "twin",
                               .stopping = {.max_tokens = 30},
                               .sampling = {.temperature = 1.3, .seed = 7}};
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
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().state_bytes == 0; }));
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
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
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
  wrong.mutable_turn()->mutable_sampling()->mutable_constraint()->set_regex("a");
  ExpectError(end(good, wrong), absl::StatusCode::kUnimplemented, "FIELD_UNIMPLEMENTED",
              "turn.sampling.constraint");
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

TEST(Converse, EachTurnCountsForTheRateLimit) {
  Rig rig({.service = {.max_calls_per_second = 0.001}});
  Talk talk(rig, OpenOf("", kMany));
  talk.Send(TurnOf({1}, 2));
  talk.Finish();
  talk.Send(TurnOf({1}, 2));
  EXPECT_EQ(GetErrorDetail(talk.End())->reason, "RATE_LIMIT");
  EXPECT_EQ(GetErrorDetail(Talk(rig).End())->reason, "RATE_LIMIT");
}

TEST(Converse, IsOneCallOfTheRecord) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.service = {.observer = observed}});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", kMany));
  talk.Send(TurnOf({1, 2}, 5));
  talk.Finish();
  talk.Send(TurnOf({1}, 6));
  talk.Finish();
  talk.Close();
  ASSERT_TRUE(talk.End().ok());
  ASSERT_TRUE(Eventually([&] { return observed->Ended().size() == 2; }));
  const AccessRecord record = observed->Ended().back();
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
  Rig rig({.service = {.observer = observed}});
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
  for (const AccessRecord& record : observed->Ended()) {
    EXPECT_EQ(record.status, absl::StatusCode::kCancelled) << record.reason;
    EXPECT_EQ(record.reason, "");
  }
}

}  // namespace
}  // namespace mnemon::converse
