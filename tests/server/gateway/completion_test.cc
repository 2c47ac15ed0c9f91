// SPDX-License-Identifier: MIT
// OpenAI's completions and chat completions over HTTP.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/gateway/gateway_rig.h"

namespace mnemon {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json Request() {
  return {{"model", "toy"}, {"prompt", "abc "}, {"max_tokens", 12}, {"seed", 7}};
}

// What gRPC gives for the same.
std::string TextByGrpc(GatewayRig& rig, const std::string& prompt, int32_t tokens,
                       int64_t seed) {
  client::GenerateOptions options;
  options.text = prompt;
  options.stopping.max_tokens = tokens;
  options.sampling.seed = seed;
  const Collected all = Collect(*rig.rig.client, options);
  EXPECT_TRUE(all.result.ok()) << all.result.status();
  return all.text;
}

TEST(Completions, AreWhatGrpcGives) {
  GatewayRig rig;
  JsonAnswer answer = rig.Post("/v1/completions", Request());
  ASSERT_EQ(answer.code, 200) << answer.body;
  EXPECT_EQ(answer.body["object"], "text_completion");
  EXPECT_EQ(answer.body["model"], "toy");
  ASSERT_EQ(answer.body["choices"].size(), 1u);
  json& choice = answer.body["choices"][0];
  EXPECT_EQ(choice["text"], TextByGrpc(rig, "abc ", 12, 7));
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(
      answer.body["usage"],
      json({{"prompt_tokens", 4}, {"completion_tokens", 12}, {"total_tokens", 16}}));
  EXPECT_THAT(answer.headers, HasSubstr("X-Request-Id: "));
}

TEST(Completions, AStreamGivesTheSameText) {
  GatewayRig rig;
  json request = Request();
  json whole = rig.Post("/v1/completions", request).body;
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  std::vector<json> events = rig.Events("/v1/completions", request);
  ASSERT_GE(events.size(), 3u);
  std::string text;
  for (json& event : events) {
    if (!event.is_object() || event["choices"].empty()) continue;
    text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, whole["choices"][0]["text"]);
  EXPECT_EQ(events.back(), "[DONE]");
  json& usage = events[events.size() - 2];
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"], whole["usage"]);
  EXPECT_EQ(events[events.size() - 3]["choices"][0]["finish_reason"], "length");
}

TEST(Completions, EveryPromptHasNChoicesWithSeedsOfTheirOwn) {
  GatewayRig rig;
  json request = Request();
  request["prompt"] = {"abc ", "b"};
  request["n"] = 2;
  JsonAnswer answer = rig.Post("/v1/completions", request);
  ASSERT_EQ(answer.code, 200) << answer.body;
  ASSERT_EQ(answer.body["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer.body["choices"][i]["index"], i);
    EXPECT_EQ(
        answer.body["choices"][i]["text"],
        TextByGrpc(rig, i < 2 ? "abc " : "b", 12, 7 + static_cast<int64_t>(i % 2)));
  }
  request["stream"] = true;
  std::vector<std::string> texts(4);
  for (json& event : rig.Events("/v1/completions", request)) {
    if (!event.is_object()) continue;
    json& choice = event["choices"][0];
    texts.at(choice["index"].get<size_t>()) += choice["text"].get<std::string>();
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(texts[i], answer.body["choices"][i]["text"]);
}

TEST(Completions, TokensEchoStopAndLogprobs) {
  GatewayRig rig;
  json request = Request();
  request["prompt"] = {13, 14, 15, 1};
  request["echo"] = true;
  const std::string text = TextByGrpc(rig, "abc ", 12, 7);
  JsonAnswer answer = rig.Post("/v1/completions", request);
  EXPECT_EQ(answer.body["choices"][0]["text"], "abc " + text);

  request = Request();
  request["stop"] = text.substr(5, 1);
  answer = rig.Post("/v1/completions", request);
  EXPECT_EQ(answer.body["choices"][0]["text"], text.substr(0, text.find(text[5])));
  EXPECT_EQ(answer.body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer.body["choices"][0]["stop_reason"], text.substr(5, 1));

  request = Request();
  request["logprobs"] = 2;
  answer = rig.Post("/v1/completions", request);
  json& logprobs = answer.body["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 12u);
  std::string joined;
  for (const json& token : logprobs["tokens"]) joined += token.get<std::string>();
  EXPECT_EQ(joined, text);
  EXPECT_LE(logprobs["token_logprobs"][0].get<double>(), 0);
  EXPECT_EQ(logprobs["top_logprobs"][3].size(), 2u);
  EXPECT_EQ(logprobs["text_offset"][3], 3);
}

TEST(Completions, OneErrorIsTheAnswerWhereAllFail) {
  GatewayRig rig;
  json request = Request();
  // A token at which the toy throws std::bad_alloc.
  request["prompt"] = {"x", "x", "x", "x", "x", "x", "x", "x"};
  for (int i = 0; i < 50; ++i) {
    request["stream"] = i % 2 == 0;
    JsonAnswer answer = rig.Post("/v1/completions", request);
    ASSERT_EQ(answer.code, 429) << i;
    ASSERT_EQ(answer.body["error"]["code"], "OUT_OF_MEMORY") << i << answer.body;
  }
}

TEST(Chat, PutsMessagesIntoTheTemplate) {
  GatewayRig rig;
  json messages = {
      {{"role", "system"}, {"content", "be"}},
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "hi"}}}}}};
  json request = {{"messages", messages}, {"max_completion_tokens", 8}, {"seed", 3}};
  JsonAnswer answer = rig.Post("/v1/chat/completions", request);
  ASSERT_EQ(answer.code, 200) << answer.body;
  json& choice = answer.body["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], TextByGrpc(rig, "be\nhi\n", 8, 3));
  request["stream"] = true;
  request["logprobs"] = true;
  request["top_logprobs"] = 1;
  std::vector<json> events = rig.Events("/v1/chat/completions", request);
  std::string text;
  size_t logprobs = 0;
  EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
  for (json& event : events) {
    if (!event.is_object()) continue;
    text += event["choices"][0]["delta"].value("content", "");
    json& entry = event["choices"][0]["logprobs"];
    if (!entry.is_null()) logprobs += entry["content"].size();
  }
  EXPECT_EQ(text, choice["message"]["content"]);
  EXPECT_EQ(logprobs, 8u);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Chat, EachRoleHasTheTextOfTheModelsTemplate) {
  RigOptions options;
  options.chat_template = {.system = "s {content}.",
                           .user = "q {content}\n",
                           .assistant = "a {content} b\n",
                           .answer = "a ",
                           .stop = {"e", "o"}};
  GatewayRig rig(options);
  json messages = {{{"role", "developer"}, {"content", "be"}},
                   {{"role", "user"}, {"content", "hi"}},
                   {{"role", "assistant"}, {"content", "ho"}},
                   {{"role", "user"}, {"content", "so"}}};
  JsonAnswer answer =
      rig.Post("/v1/chat/completions",
               {{"messages", messages}, {"max_tokens", 60}, {"seed", 3}});
  ASSERT_EQ(answer.code, 200) << answer.body;
  const std::string whole = TextByGrpc(rig, "s be.q hi\na ho b\nq so\na ", 60, 3);
  ASSERT_LT(whole.find_first_of("eo"), whole.size());
  json& choice = answer.body["choices"][0];
  EXPECT_EQ(choice["message"]["content"], whole.substr(0, whole.find_first_of("eo")));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

constexpr char kProgram[] =
    "{% for m in messages %}{{ m.role | replace('user', 'q') | first }} {{ m.content "
    "}}{{ tools[0].name if tools "
    "}}\n"
    "{% endfor %}{{ mood }}{% if add_generation_prompt %}a {% endif %}"
    "{% if messages[0].content == 'no' %}{{ raise_exception('not this') }}{% endif %}";

TEST(Chat, AProgramMakesTheText) {
  RigOptions options;
  options.chat_program = kProgram;
  GatewayRig rig(options);
  json request = {
      {"messages",
       {{{"role", "developer"}, {"content", "be"}},
        {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "hi"}}}}}}},
      {"max_tokens", 8},
      {"seed", 3}};
  const auto text = [&] {
    JsonAnswer answer = rig.Post("/v1/chat/completions", request);
    EXPECT_EQ(answer.code, 200) << answer.body;
    return answer.body["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(text(), TextByGrpc(rig, "s be\nq hi\na ", 8, 3));
  request["tools"] = {{{"name", "tell"}}};
  request["tool_choice"] = "auto";
  request["chat_template_kwargs"] = {{"mood", "ok"}};
  EXPECT_EQ(text(), TextByGrpc(rig, "s betell\nq hitell\noka ", 8, 3));

  // Arguments are values where they are JSON that is not nested without end.
  for (const std::string& arguments :
       {std::string("{\"a\": 1}"),
        std::string(500'000, '[') + std::string(500'000, ']')}) {
    json calls = request;
    calls["messages"].push_back(
        {{"role", "assistant"},
         {"content", "ho"},
         {"tool_calls",
          {{{"function", {{"name", "tell"}, {"arguments", arguments}}}}}}});
    EXPECT_EQ(rig.Post("/v1/chat/completions", calls).code, 200);
  }

  const auto fault = [&](const char* pointer, const json& value) {
    json bad = request;
    bad[json::json_pointer(pointer)] = value;
    json error = rig.Post("/v1/chat/completions", bad).body["error"];
    return StrCat(error.value("param", ""), ": ", error.value("message", ""));
  };
  EXPECT_THAT(fault("/messages/0/content", "no"),
              AllOf(StartsWith("messages: "), HasSubstr("not this")));
  EXPECT_THAT(fault("/messages/1/role", "robot"), StartsWith("messages[1].role: "));
  EXPECT_THAT(fault("/messages/1/content", 3), StartsWith("messages[1].content: "));
  EXPECT_THAT(fault("/messages", json::array()), StartsWith("messages: "));
  EXPECT_THAT(fault("/tools", {1}), StartsWith("tools: "));
  EXPECT_THAT(fault("/tool_choice", "required"), StartsWith("tool_choice: "));
  EXPECT_THAT(fault("/response_format", {{"type", "json_object"}}),
              StartsWith("response_format: "));
}

TEST(Chat, AnEndTokenOfTheModelEndsTheAnswer) {
  RigOptions options;
  options.chat_program = kProgram;
  const json request = {{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                        {"seed", 3}};
  json ids = {{"prompt", "q hi\na "}, {"max_tokens", 40}, {"seed", 3}};
  const std::string all =
      GatewayRig(options).Post("/v1/completions", ids).body["choices"][0]["text"];
  const auto end = GatewayRig(options).rig.engine->Tokenize("toy", all.substr(9, 1));
  options.generation.end_tokens = {end->tokens[0]};
  GatewayRig rig(options);
  json choice = rig.Post("/v1/chat/completions", request).body["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], end->tokens[0]);
  EXPECT_EQ(choice["message"]["content"], all.substr(0, all.find(all[9]) + 1));
  ids["ignore_eos"] = true;
  EXPECT_EQ(rig.Post("/v1/completions", ids).body["choices"][0]["text"], all);
}

TEST(Chat, ATemplateThatIsNotSupportedIsTold) {
  RigOptions options;
  options.no_chat_program = absl::InvalidArgumentError("line 3: tag 'import'");
  GatewayRig rig(options);
  const json messages = {{{"role", "user"}, {"content", "hi"}}};
  JsonAnswer chat = rig.Post("/v1/chat/completions", {{"messages", messages}});
  EXPECT_EQ(chat.body["error"]["code"], "NO_CHAT_TEMPLATE") << chat.body;
  EXPECT_THAT(chat.body["error"]["message"].get<std::string>(), HasSubstr("'import'"));
  chat = rig.Post("/v1/responses", {{"input", "hi"}});
  EXPECT_EQ(chat.body["error"]["code"], "NO_CHAT_TEMPLATE") << chat.body;
  EXPECT_EQ(rig.Post("/v1/completions", {{"prompt", "hi"}}).code, 200);
}

TEST(Completions, ErrorsNameTheField) {
  GatewayRig rig;
  const auto expect = [&](const char* path, const json& change, int code,
                          const std::string& reason, const std::string& field) {
    json request = path == std::string("/v1/completions")
                       ? Request()
                       : json{{"messages", {{{"role", "user"}, {"content", "a"}}}}};
    request.update(change);
    JsonAnswer answer = rig.Post(path, request);
    EXPECT_EQ(answer.code, code) << change << answer.body;
    EXPECT_EQ(answer.body["error"]["code"], reason) << change << answer.body;
    EXPECT_EQ(answer.body["error"]["param"], json(field)) << change << answer.body;
  };
  const char* const text = "/v1/completions";
  const char* const chat = "/v1/chat/completions";
  expect(text, {{"temperature", -1}}, 400, "INVALID_VALUE", "temperature");
  expect(text, {{"temperature", "hot"}}, 400, "INVALID_VALUE", "temperature");
  expect(text, {{"temprature", 1}}, 400, "INVALID_VALUE", "temprature");
  expect(text, {{"max_tokens", -1}}, 400, "INVALID_VALUE", "max_tokens");
  expect(text, {{"n", 17}}, 400, "INVALID_VALUE", "n");
  expect(text, {{"n", 1'000'000'000}}, 400, "INVALID_VALUE", "n");
  expect(text, {{"best_of", 1'000'000'000}}, 400, "FIELD_UNIMPLEMENTED", "best_of");
  expect(text, {{"prompt", {"a", 1}}}, 400, "INVALID_VALUE", "prompt");
  expect(text, {{"prompt", "\u20ac"}}, 400, "UNKNOWN_CHARACTER", "prompt");
  expect(text, {{"prompt", {99999}}}, 400, "INVALID_VALUE", "prompt[0]");
  expect(text, {{"stop", {1}}}, 400, "INVALID_VALUE", "stop");
  expect(text, {{"suffix", "x"}}, 400, "FIELD_UNIMPLEMENTED", "suffix");
  expect(text, {{"logit_bias", {{"x", 1}}}}, 400, "INVALID_VALUE", "logit_bias");
  expect(chat, {{"messages", json::array()}}, 400, "INVALID_VALUE", "messages");
  expect(chat, {{"messages", {{{"role", "robot"}, {"content", "a"}}}}}, 400,
         "INVALID_VALUE", "messages[0].role");
  expect(chat, {{"messages", {{{"role", "user"}, {"content", "\u20ac"}}}}}, 400,
         "UNKNOWN_CHARACTER", "messages");
  expect(chat, {{"tools", {{{"type", "function"}}}}}, 400, "FIELD_UNIMPLEMENTED",
         "tools");
  expect(chat, {{"top_logprobs", 2}}, 400, "INVALID_VALUE", "top_logprobs");
  JsonAnswer unknown = rig.Post(text, {{"model", "none"}, {"prompt", "a"}});
  EXPECT_EQ(unknown.code, 404);
  EXPECT_EQ(unknown.body["error"]["code"], "MODEL_NOT_FOUND");
}

}  // namespace
}  // namespace mnemon
