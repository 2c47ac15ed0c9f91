// SPDX-License-Identifier: MIT
#include "model/text/chat_program.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

constexpr char kChatMl[] =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}"
    "{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

std::shared_ptr<const ChatProgram> Program(const char* source) {
  return ChatProgram::Make({.chat_template_jinja = source,
                            .tokenizer_config_json =
                                R"({"bos_token": "^", "eos_token": {"content": "$"}})"})
      .value();
}

ordered_json Messages(const char* text) {
  return {{"messages", ordered_json::array({{{"role", "user"}, {"content", text}}})}};
}

TEST(ChatProgram, MakesTheTextOfAConversation) {
  const auto program = Program(kChatMl);
  EXPECT_EQ(program->Render(Messages(" hi "), true, {}).value(),
            "^<user>hi$\n<assistant>");
  EXPECT_EQ(program->Render(Messages("hi"), false, {}).value(), "^<user>hi$\n");
}

TEST(ChatProgram, AddsWhatFollowsAnAnswer) {
  EXPECT_EQ(Program(kChatMl)->RenderMore(Messages("more"), {}).value(),
            "$\n<user>more$\n<assistant>");
  const char* const forgets =
      "{% for m in messages %}{% if loop.last %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_THAT(
      std::string(
          Program(forgets)->RenderMore(Messages("more"), {}).status().message()),
      HasSubstr("another way"));
  // What stands before the answer may be written in another way then.
  const char* const thinks =
      "{% for m in messages %}{% if loop.last %}<think>{% endif %}{{ m.content }}$"
      "{% endfor %}";
  EXPECT_EQ(Program(thinks)->RenderMore(Messages("more"), {}).value(), "$<think>more$");
}

TEST(ChatProgram, ThereMayBeNone) {
  EXPECT_EQ(ChatProgram::Make({}).value(), nullptr);
  EXPECT_THAT(std::string(ChatProgram::Make({.chat_template_jinja = "\n{% import x %}"})
                              .status()
                              .message()),
              HasSubstr("line 2"));
}

}  // namespace
}  // namespace mnemon
