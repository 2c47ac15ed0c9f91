// SPDX-License-Identifier: MIT
// Prompts that are conversations, in sessions and without.
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using client::GenerateOptions;
using client::Message;
using ::testing::HasSubstr;

constexpr char kProgram[] =
    "{% for m in messages %}{{ m.role | replace('user', 'q') | first }} {{ m.content }}"
    ".\n{% endfor %}"
    "{% if add_generation_prompt %}a {% endif %}";

GenerateOptions Says(const std::string& text, const std::string& session = "") {
  return {.session = session,
          .messages = {{.role = "user", .content = text}},
          .stopping = {.max_tokens = 6},
          .sampling = {.temperature = 0}};
}

std::string Continued(Rig& rig, const std::string& text) {
  return Collect(*rig.client, {.text = text,
                               .stopping = {.max_tokens = 6},
                               .sampling = {.temperature = 0}})
      .text;
}

std::string HistoryOf(Rig& rig, const std::string& session) {
  std::string text;
  v1::GetSessionHistoryRequest request;
  request.set_name("sessions/" + session);
  v1::SessionHistory history;
  grpc::ClientContext context;
  EXPECT_TRUE(rig.sessions->GetSessionHistory(&context, request, &history).ok());
  return history.text();
}

v1::GenerateRequest Raw(const std::string& conversation) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_conversation(conversation);
  request.mutable_stopping()->set_max_tokens(2);
  return request;
}

absl::Status StatusOfConversation(Rig& rig, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  v1::GenerateResponse response;
  const auto stream = rig.generation->Generate(&context, request);
  while (stream->Read(&response)) {
  }
  return client::FromGrpcStatus(stream->Finish());
}

std::string FaultFieldOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).field;
}

TEST(Conversation, IsTheTextOfTheModelsProgram) {
  Rig rig({.chat_program = kProgram});
  GenerateOptions options = Says("hi");
  options.messages.insert(options.messages.begin(),
                          Message{.role = "system", .content = "be"});
  EXPECT_EQ(Collect(*rig.client, options).text, Continued(rig, "s be.\nq hi.\na "));
}

TEST(Conversation, GoesOnInASession) {
  Rig rig({.chat_program = kProgram});
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  const Collected answer = Collect(*rig.client, Says("hi", "anna"));
  ASSERT_TRUE(answer.result.ok()) << answer.result.status();
  const std::string first = answer.text;
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi.\na " + first);
  const std::string second = Collect(*rig.client, Says("and", "anna")).text;
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi.\na " + first + ".\nq and.\na " + second);
  EXPECT_EQ(second, Continued(rig, "q hi.\na " + first + ".\nq and.\na "));
}

TEST(Conversation, AnEndThatTheModelWroteIsNotRepeated) {
  const int32_t end = 2;  // "."
  Rig rig({.chat_program = kProgram, .generation = {.end_tokens = {end}}});
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  GenerateOptions options = Says("hi", "anna");
  options.sampling.logit_bias = {{.token = end, .bias = 100}};
  ASSERT_TRUE(Collect(*rig.client, options).result.ok());
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi.\na .");
  options = Says("and", "anna");
  options.stopping.max_tokens = 0;
  ASSERT_TRUE(Collect(*rig.client, options).result.ok());
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi.\na .\nq and.\na ");
}

TEST(Conversation, NorIsAStopStringOfAPlainTemplate) {
  const ChatTemplate plain{.system = "{content}",
                           .user = "q {content}\n",
                           .assistant = "{content}\nq",
                           .answer = "a ",
                           .stop = {"q"}};
  Rig rig({.chat_template = plain});
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  GenerateOptions options = Says("hi", "anna");
  options.sampling.logit_bias = {{.token = 29, .bias = 100}};  // "q"
  const Collected first = Collect(*rig.client, options);
  ASSERT_TRUE(first.result.ok()) << first.result.status();
  EXPECT_EQ(first.result->stop_string, "q");
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi\na q");
  options = Says("and", "anna");
  options.stopping.max_tokens = 0;
  ASSERT_TRUE(Collect(*rig.client, options).result.ok());
  // The text before the stop string is not that of the template: it is left as it is.
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi\na q\nqq and\na ");

  ASSERT_TRUE(rig.client->CreateSession({.id = "bert"}).ok());
  ASSERT_TRUE(
      Collect(*rig.client,
              {.session = "bert", .text = "a so\nq", .stopping = {.max_tokens = 0}})
          .result.ok());
  options.session = "bert";
  ASSERT_TRUE(Collect(*rig.client, options).result.ok());
  EXPECT_EQ(HistoryOf(rig, "bert"), "a so\nqq and\na ");
}

TEST(Conversation, WithoutATemplateEachMessageIsALine) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  const std::string first = Collect(*rig.client, Says("hi", "anna")).text;
  ASSERT_TRUE(Collect(*rig.client, Says("and", "anna")).result.ok());
  EXPECT_THAT(HistoryOf(rig, "anna"),
              ::testing::StartsWith("hi\n" + first + "\nand\n"));
}

TEST(Conversation, ItsTimeIsThatOfTheSessionsMaking) {
  Rig rig({.chat_program = "{{ strftime_now('%d %H%M%S') }}{% for m in messages %} "
                           "{{ m.content }}{% endfor %}"});
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  const auto made = rig.engine->GetSession("anna")->create_time;
  GenerateOptions options = Says("hi", "anna");
  options.stopping.max_tokens = 0;
  ASSERT_TRUE(Collect(*rig.client, options).result.ok());
  EXPECT_EQ(
      HistoryOf(rig, "anna"),
      absl::FormatTime("%d %H%M%S", absl::FromChrono(made), absl::LocalTimeZone()) +
          " hi");
}

TEST(Conversation, TheSameRequestIsTheSameStream) {
  Rig rig({.chat_program = kProgram});
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  GenerateOptions options = Says("hi", "anna");
  options.request_id = "11111111-2222-3333-4444-555555555555";
  const std::string first = Collect(*rig.client, options).text;
  EXPECT_EQ(Collect(*rig.client, options).text, first);
  EXPECT_EQ(HistoryOf(rig, "anna"), "q hi.\na " + first);
  options.messages[0].content = "ho";
  EXPECT_EQ(ReasonOf(Collect(*rig.client, options).result.status()),
            "REQUEST_ID_REUSED");
}

TEST(Conversation, FaultsNameTheirField) {
  Rig rig({.chat_program = "{{ raise_exception('not this') }}"});
  absl::Status status =
      StatusOfConversation(rig, Raw(R"({"messages": [{"role": "robot"}]})"));
  EXPECT_EQ(FaultFieldOf(status), "prompt.conversation.messages[0].role") << status;
  EXPECT_EQ(FaultFieldOf(StatusOfConversation(rig, Raw("x"))), "prompt.conversation");
  status = StatusOfConversation(
      rig, Raw(R"({"messages": [{"role": "user", "content": "a"}]})"));
  EXPECT_EQ(FaultFieldOf(status), "prompt.conversation");
  EXPECT_THAT(std::string(status.message()), HasSubstr("not this"));

  Rig plain;
  status = StatusOfConversation(
      plain, Raw(R"({"messages": [{"role": "user", "content": "A"}]})"));
  EXPECT_EQ(FaultFieldOf(status), "prompt.conversation");
  EXPECT_EQ(ReasonOf(status), "UNKNOWN_CHARACTER");

  Rig unsupported({.no_chat_program = absl::InvalidArgumentError("line 3")});
  EXPECT_EQ(ReasonOf(Collect(*unsupported.client, Says("hi")).result.status()),
            "NO_CHAT_TEMPLATE");
  Rig ids({.tokenizer = false});
  EXPECT_EQ(ReasonOf(Collect(*ids.client, Says("hi")).result.status()), "NO_TOKENIZER");

  v1::ScoreRequest open, part;
  open.mutable_open();
  part.mutable_part()->set_conversation("{}");
  grpc::ClientContext context;
  const auto score = rig.generation->Score(&context);
  score->Write(open);
  score->Write(part);
  score->WritesDone();
  v1::ScoreResponse response;
  while (score->Read(&response)) {
  }
  EXPECT_EQ(FaultFieldOf(client::FromGrpcStatus(score->Finish())), "part.conversation");
}

TEST(Conversation, UnknownCharactersAreSkippedOrReplaced) {
  Rig rig;
  GenerateOptions options{
      .text = "hi Bob", .stopping = {.max_tokens = 6}, .sampling = {.temperature = 0}};
  EXPECT_EQ(ReasonOf(Collect(*rig.client, options).result.status()),
            "UNKNOWN_CHARACTER");
  options.unknown_characters = client::UnknownCharacters::kSkip;
  EXPECT_EQ(Collect(*rig.client, options).text, Continued(rig, "hi ob"));
  options.unknown_characters = client::UnknownCharacters::kReplace;
  EXPECT_EQ(Collect(*rig.client, options).text, Continued(rig, "hi  ob"));
  GenerateOptions says = Says("Hi");
  says.unknown_characters = client::UnknownCharacters::kSkip;
  EXPECT_EQ(Collect(*rig.client, says).text, Continued(rig, "i\n"));

  client::ScoreOptions score{.text = "hi Bob"};
  const auto none = [](const std::vector<client::TokenLogprobs>&) { return true; };
  EXPECT_EQ(ReasonOf(rig.client->Score(score, none).status()), "UNKNOWN_CHARACTER");
  score.unknown_characters = client::UnknownCharacters::kSkip;
  const auto scored = rig.client->Score(score, none);
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->tokens, 4);
}

TEST(Conversation, AModelNamedDefaultIsTheOneOfCallsThatNameNone) {
  Rig rig({.models = {"toy", "default"}});
  const Collected answer = Collect(*rig.client, Says("hi"));
  ASSERT_TRUE(answer.result.ok()) << answer.result.status();
  EXPECT_EQ(answer.result->model, "default");
  ASSERT_TRUE(rig.client->CreateSession({.id = "anna"}).ok());
  EXPECT_EQ(rig.client->GetSession("anna")->model, "default");
  Rig two({.models = {"toy", "other"}});
  EXPECT_THAT(std::string(Collect(*two.client, Says("hi")).result.status().message()),
              HasSubstr("none is called default"));
}

}  // namespace
}  // namespace mnemon
