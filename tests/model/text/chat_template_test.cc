// SPDX-License-Identifier: MIT
#include "model/text/chat_template.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

const std::vector<ChatMessage> kMessages = {
    {.role = ChatRole::kSystem, .content = "be {content}"},
    {.role = ChatRole::kUser, .content = "hi"},
    {.role = ChatRole::kAssistant, .content = "ho"},
    {.role = ChatRole::kUser, .content = ""}};

TEST(ChatTemplate, TheDefaultIsALinePerMessage) {
  EXPECT_EQ(RenderChat({}, kMessages), "be {content}\nhi\nho\n\n");
  EXPECT_EQ(RenderChat({}, {}), "");
  EXPECT_EQ(RenderChat({}, {{.content = "x"}}, /*answered=*/true), "\nx\n");
}

TEST(ChatTemplate, RolesHaveTextsOfTheirOwn) {
  const auto chat = ParseTokenizerConfig(R"({"other": 1, "chat_template": {
      "system": "{content}!", "user": "Q: {content}\n", "assistant": "A: {content};\n",
      "answer": "A: ", "stop": ["\nQ:", ";"]}})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(RenderChat(*chat, kMessages), "be {content}!Q: hi\nA: ho;\nQ: \nA: ");
  EXPECT_EQ(RenderChat(*chat, {{.content = "x"}}, /*answered=*/true), ";\nQ: x\nA: ");
  EXPECT_EQ(chat->stop, (std::vector<std::string>{"\nQ:", ";"}));
}

TEST(ChatTemplate, WhatBelongsToOtherProgramsIsLeftAlone) {
  for (const char* const text :
       {"{}", R"({"chat_template": null})", R"({"chat_template": "{% for %}"})"}) {
    const auto chat = ParseTokenizerConfig(text);
    ASSERT_TRUE(chat.ok()) << text << chat.status();
    EXPECT_EQ(*chat, ChatTemplate()) << text;
  }
}

TEST(ChatTemplate, FaultsNameTheMember) {
  const auto fault = [](const std::string& members) {
    return std::string(ParseTokenizerConfig("{\"chat_template\": " + members + "}")
                           .status()
                           .message());
  };
  EXPECT_THAT(fault("[]"), HasSubstr("chat_template must be an object"));
  EXPECT_THAT(fault(R"({"usr": ""})"), HasSubstr("'usr'"));
  EXPECT_THAT(fault(R"({"user": "x"})"), HasSubstr("chat_template.user"));
  EXPECT_THAT(fault(R"({"user": "{content}{content}"})"), HasSubstr("once"));
  EXPECT_THAT(fault(R"({"answer": 1})"), HasSubstr("chat_template.answer"));
  EXPECT_THAT(fault(R"({"stop": [""]})"), HasSubstr("chat_template.stop"));
  EXPECT_THAT(fault(R"({"stop": "x"})"), HasSubstr("chat_template.stop"));
  EXPECT_FALSE(ParseTokenizerConfig("[").ok());
  EXPECT_FALSE(ParseTokenizerConfig("1").ok());
}

}  // namespace
}  // namespace mnemon
