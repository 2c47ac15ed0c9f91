// SPDX-License-Identifier: MIT
#include "model/text/conversation.h"

#include <string>

#include "base/error.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

std::string Read(std::string_view json) {
  const auto read = ParseConversation(json);
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? read->dump() : "";
}

std::string FieldAtFault(std::string_view json) {
  const auto read = ParseConversation(json);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return GetErrorDetail(read.status())
      .value_or(ErrorDetail{.reason = "", .field = "?"})
      .field;
}

TEST(Conversation, IsTheVariablesOfATemplate) {
  EXPECT_EQ(
      Read(R"({"tools": [{"b": 1, "a": 2}], "chat_template_kwargs": {"mood": true},
                     "messages": [{"role": "developer", "content": "be"},
                                  {"content": [{"type": "text", "text": "h"},
                                               {"type": "input_text", "text": "i"}],
                                   "role": "user", "name": null}]})"),
      R"({"mood":true,"messages":[{"role":"system","content":"be"},)"
      R"({"content":"hi","role":"user"}],"tools":[{"b":1,"a":2}]})");
  EXPECT_EQ(Read(R"({"messages": [{"role": "user", "content": ""}], "tools": []})"),
            R"({"messages":[{"role":"user","content":""}]})");
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_EQ(Read(R"({"messages": [{"role": "assistant", "tool_calls":
              [{"function": {"arguments": "{\"a\": 1}"}},
               {"function": {"arguments": "not JSON"}},
               {"function": {"arguments": ")" +
                 deep + R"("}}]}]})"),
            R"({"messages":[{"role":"assistant","tool_calls":)"
            R"([{"function":{"arguments":{"a":1}}},)"
            R"({"function":{"arguments":"not JSON"}},)"
            R"({"function":{"arguments":")" +
                deep + R"("}}]}]})");
}

TEST(Conversation, FaultsNameTheirField) {
  EXPECT_EQ(FieldAtFault("{"), "");
  EXPECT_EQ(FieldAtFault("[]"), "");
  EXPECT_EQ(FieldAtFault(std::string(100'000, '[')), "");
  EXPECT_EQ(FieldAtFault("{}"), "messages");
  EXPECT_EQ(FieldAtFault(R"({"messages": []})"), "messages");
  EXPECT_EQ(FieldAtFault(R"({"messages": "hi"})"), "messages");
  EXPECT_EQ(FieldAtFault(R"({"messages": [1]})"), "messages[0]");
  EXPECT_EQ(FieldAtFault(R"({"message": []})"), "message");
  const std::string user = R"({"messages": [{"role": "user", "content": "a"}, )";
  EXPECT_EQ(FieldAtFault(user + R"({"content": "a"}]})"), "messages[1].role");
  EXPECT_EQ(FieldAtFault(user + R"({"role": "robot", "content": "a"}]})"),
            "messages[1].role");
  EXPECT_EQ(FieldAtFault(user + R"({"role": "user"}]})"), "messages[1].content");
  EXPECT_EQ(
      FieldAtFault(user + R"({"role": "user", "content": [{"type": "image"}]}]})"),
      "messages[1].content");
  EXPECT_EQ(FieldAtFault(user + R"({"role": "user", "content": 3}]})"),
            "messages[1].content");
  const std::string one = R"({"messages": [{"role": "user", "content": "a"}], )";
  EXPECT_EQ(FieldAtFault(one + R"("tools": [1]})"), "tools");
  EXPECT_EQ(FieldAtFault(one + R"("tools": {"a": 1}})"), "tools");
  EXPECT_EQ(FieldAtFault(one + R"("chat_template_kwargs": [1]})"),
            "chat_template_kwargs");
}

TEST(Conversation, APlainTemplateTakesContentsAlone) {
  const auto plain = [](std::string_view json) {
    return PlainMessages(ParseConversation(json).value());
  };
  const auto messages = plain(R"({"messages": [{"role": "system", "content": "be"},
      {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]})");
  ASSERT_TRUE(messages.ok()) << messages.status();
  ASSERT_EQ(messages->size(), 3u);
  EXPECT_EQ((*messages)[0].role, ChatRole::kSystem);
  EXPECT_EQ((*messages)[1].role, ChatRole::kUser);
  EXPECT_EQ((*messages)[2].role, ChatRole::kAssistant);
  EXPECT_EQ((*messages)[2].content, "ho");
  const auto fault = [&](std::string_view json) {
    return GetErrorDetail(plain(json).status()).value_or(ErrorDetail{}).field;
  };
  EXPECT_EQ(fault(R"({"messages": [{"role": "tool", "content": "a"}]})"),
            "messages[0].role");
  EXPECT_EQ(fault(R"({"messages": [{"role": "assistant", "tool_calls": []}]})"),
            "messages[0].role");
  EXPECT_EQ(fault(R"({"messages": [{"role": "user", "content": "a"}],
                      "tools": [{"a": 1}]})"),
            "tools");
  EXPECT_EQ(fault(R"({"messages": [{"role": "user", "content": "a"}],
                      "chat_template_kwargs": {"mood": 1}})"),
            "mood");
}

}  // namespace
}  // namespace mnemon
