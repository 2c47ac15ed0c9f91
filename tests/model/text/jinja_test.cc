// SPDX-License-Identifier: MIT
// Texts of templates are compared with those of jinja2: language.jsonl, which render.py
// beside it writes, and the cases of whole templates.
#include "model/text/jinja/template.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/chat_files.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::StartsWith;

const absl::CivilSecond kNow(2026, 3, 5, 14, 7, 9);

std::string DataFolder() {
  return MNEMON_SOURCE_DIR "/tests/model/text/data/templates";
}

std::vector<ordered_json> LinesOf(const std::string& path) {
  std::vector<ordered_json> lines;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(ordered_json::parse(line));
  }
  return lines;
}

absl::StatusOr<std::string> Render(
    const std::string& source, const ordered_json& variables = ordered_json::object()) {
  const auto made = JinjaTemplate::Parse(source, "test");
  if (!made.ok()) return made.status();
  return made->Render(variables, kNow);
}

std::string Fault(const std::string& source,
                  const ordered_json& variables = ordered_json::object()) {
  const auto text = Render(source, variables);
  return text.ok() ? "rendered: " + *text : std::string(text.status().message());
}

std::string ParseFault(const std::string& source) {
  const auto made = JinjaTemplate::Parse(source, "test");
  if (made.ok()) return "parsed";
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << source;
  return std::string(made.status().message());
}

// Within fewer steps than the limit, which each of these passes too.
void ExpectExhausted(const std::string& source,
                     const ordered_json& variables = ordered_json::object()) {
  constexpr int64_t kSteps = 500'000;
  const auto made = JinjaTemplate::Parse(source, "test");
  const absl::Status status =
      made.ok() ? made->Render(variables, kNow, kSteps).status() : made.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted)
      << source.substr(0, 200) << status;
}

std::string Repeated(std::string_view piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

TEST(Jinja, EachConstructGivesTheTextOfJinja2) {
  ordered_json variables;
  int cases = 0;
  for (const ordered_json& line : LinesOf(DataFolder() + "/language.jsonl")) {
    if (line.is_object()) {
      variables = line["variables"];
      continue;
    }
    ++cases;
    const auto source = line[0].get<std::string>();
    const auto text = Render(source, variables);
    if (line[1].is_null()) {
      EXPECT_FALSE(text.ok()) << source << "\n" << *text;
    } else {
      EXPECT_TRUE(text.ok()) << source << "\n" << text.status();
      EXPECT_EQ(text.value_or(""), line[1].get<std::string>()) << source;
    }
  }
  EXPECT_GT(cases, 1500);
}

class JinjaGolden : public testing::TestWithParam<std::string> {};

void CheckCases(const std::string& folder, const std::string& family) {
  const auto source = ReadFile(StrCat(folder, "/", family, "/template.jinja"), 1 << 20);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto chat = JinjaTemplate::Parse(*source, family);
  ASSERT_TRUE(chat.ok()) << chat.status();
  const ordered_json about =
      ordered_json::parse(*ReadFile(folder + "/about.json", 1 << 20));
  int cases = 0;
  for (ordered_json& line : LinesOf(StrCat(folder, "/", family, "/cases.jsonl"))) {
    ++cases;
    ordered_json variables = about["tokens"][family];
    variables["documents"] = nullptr;
    variables["tools"] = line.value("tools", ordered_json());
    for (const char* const name : {"messages", "add_generation_prompt"}) {
      variables[name] = line[name];
    }
    const ordered_json more = line.value("kwargs", ordered_json::object());
    for (const auto& [name, value] : more.items()) variables[name] = value;
    const auto text = chat->Render(variables, kNow);
    if (line.contains("rendered")) {
      ASSERT_TRUE(text.ok()) << text.status() << line["messages"];
      EXPECT_EQ(*text, line["rendered"].get<std::string>());
      continue;
    }
    EXPECT_FALSE(text.ok()) << *text;
    if (!line.contains("message")) continue;
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr(line["message"].get<std::string>()));
    const auto detail = GetErrorDetail(text.status());
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->reason, "TEMPLATE_RAISED");
  }
  EXPECT_GE(cases, 30);
}

TEST_P(JinjaGolden, ConversationsBecomeTheTextOfJinja2) {
  CheckCases(DataFolder(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Families, JinjaGolden,
                         testing::Values("smollm2", "qwen", "llama3", "lfm2", "mistral",
                                         "gemma"),
                         [](const auto& family) { return family.param; });

// Covers all folders with cases.
TEST(Jinja, ConversationsOfTheLargeDataBecomeTheTextOfJinja2) {
  const char* const more = std::getenv("MNEMON_TEST_DATA");
  if (more == nullptr) GTEST_SKIP() << "MNEMON_TEST_DATA is not set";
  const std::string folder = StrCat(more, "/golden_hf/templates");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_directory()) CheckCases(folder, entry.path().filename());
  }
}

TEST(Jinja, WhatIsNotKnownIsRefusedWithItsLine) {
  EXPECT_EQ(ParseFault("a\n{% include 'x' %}").substr(0, 49),
            "template 'test': line 2: unknown tag 'include'; s");
  EXPECT_THAT(ParseFault("{% set a = 1 %}\n\n{% do a %}"),
              HasSubstr("line 3: unknown tag 'do'"));
  EXPECT_EQ(ParseFault("\n{{ a | frobnicate }}"),
            "template 'test': line 2: unknown filter 'frobnicate'");
  EXPECT_EQ(ParseFault("{% if false %}\n{{ a is odd and a is strange }}{% endif %}"),
            "template 'test': line 2: unknown test 'strange'");
  EXPECT_EQ(ParseFault("{{\n now() }}"),
            "template 'test': line 2: unknown function 'now'");
  EXPECT_EQ(ParseFault("{{ a.frobnicate() }}"),
            "template 'test': line 1: unknown method 'frobnicate'");
  EXPECT_THAT(ParseFault("{{ a | map('nothing') }}"), HasSubstr("filter 'nothing'"));
  EXPECT_THAT(ParseFault("{{ a | select('nothing') }}"), HasSubstr("test 'nothing'"));
  EXPECT_THAT(ParseFault("{{ a | selectattr('b', 'nothing') }}"),
              HasSubstr("test 'nothing'"));
  EXPECT_EQ(
      ParseFault("{% for i in a %}{% endfor %}{% macro f() %}{% endmacro %}{{ f() }}"),
      "parsed");
}

TEST(Jinja, FaultsTellTheLine) {
  EXPECT_EQ(ParseFault("{% if a %}\n\nx"),
            "template 'test': line 1: the template ends before {% endif %}");
  EXPECT_EQ(ParseFault("x\n{{ 'a }}"),
            "template 'test': line 2: a string does not end");
  EXPECT_EQ(ParseFault("{{ a b }}"),
            "template 'test': line 1: expected the end of {{ }}, not 'b'");
  EXPECT_EQ(ParseFault("\xff"), "template 'test': is not UTF-8");
  EXPECT_EQ(Fault("a\n{{ b.c }}"), "template 'test', line 2: 'b' is undefined");
  EXPECT_EQ(Fault("{{ a + 1 }}", {{"a", "x"}}),
            "template 'test', line 1: no + between a str and a int");
  EXPECT_EQ(Fault("\n\n{{ 5 | first }}"),
            "template 'test', line 3: filter first: a int cannot be iterated over");
  EXPECT_THAT(Fault("{{ a }}", ordered_json::array()), HasSubstr("no JSON object"));
  const auto raised = Render("a\n{{ raise_exception('no\x01 ' ~ 1) }}");
  EXPECT_EQ(raised.status().message(),
            "template 'test', line 2: the template raised: no\\x01 1");
  EXPECT_EQ(GetErrorDetail(raised.status())->reason, "TEMPLATE_RAISED");
}

TEST(Jinja, NestingIsLimited) {
  const int many = 100'000;
  ExpectExhausted("{{ " + Repeated("(", many) + "1" + Repeated(")", many) + " }}");
  ExpectExhausted("{{ " + Repeated("[", many) + Repeated("]", many) + " }}");
  ExpectExhausted("{{ " + Repeated("not ", many) + "1 }}");
  ExpectExhausted("{{ " + Repeated("-", many) + "1 }}");
  ExpectExhausted("{{ 1" + Repeated(" + 1", many) + " }}");
  ExpectExhausted("{{ a" + Repeated(".a", many) + " }}");
  ExpectExhausted("{{ a" + Repeated("|trim", many) + " }}");
  ExpectExhausted("{{ a" + Repeated("(1)", many) + " }}");
  ExpectExhausted("{{ " + Repeated("1 if ", many) + "1 }}");
  ExpectExhausted("{{ " + Repeated("1 if 1 else ", many) + "1 }}");
  ExpectExhausted(Repeated("{% if 1 %}", many) + Repeated("{% endif %}", many));
  ExpectExhausted("{% set " + Repeated("(", many) + "a" + Repeated(")", many) +
                  " = 1 %}");
  ExpectExhausted("{{ 1" + Repeated(" is odd(1", many) + Repeated(")", many) + " }}");
  ExpectExhausted(Repeated("{# x #}\n", 1 << 18));
  // What is flat may be long.
  EXPECT_TRUE(
      Render("{% if 0 %}" + Repeated("{% elif 0 %}", 5000) + "{% endif %}").ok());
  EXPECT_TRUE(Render("{{ 1" + Repeated(" ~ 1", 5000) + " }}").ok());
  EXPECT_TRUE(Render("{{ [1" + Repeated(", 1", 5000) + "] }}").ok());
}

TEST(Jinja, CallsAreLimited) {
  ExpectExhausted("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  ExpectExhausted(
      "{% macro f() %}{{ g() }}{% endmacro %}"
      "{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}");
  ExpectExhausted("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  ExpectExhausted(
      "{% macro f() %}{% call f() %}{% endcall %}{{ caller() }}"
      "{% endmacro %}{% call f() %}{% endcall %}");
  const std::string nested = Repeated("{% if 1 %}", 150),
                    end = Repeated("{% endif %}", 150);
  ExpectExhausted("{% macro f() %}" + nested + "{{ f() }}" + end +
                  "{% endmacro %}{{ f() }}");
  EXPECT_EQ(Render("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}x{% endmacro %}"
                   "{{ f(90) | length }}")
                .value(),
            "91");
}

TEST(Jinja, WorkIsLimited) {
  const std::string loops =
      "{% for a in range(100000) %}{% for b in range(100000) %}"
      "{{ 1 }}{% endfor %}{% endfor %}";
  ExpectExhausted(loops);
  ExpectExhausted("{{ range(1000000000000) | length }}");
  ExpectExhausted("{{ range(100000) | list * 1000 }}");
  ExpectExhausted("{{ 'x' * 1000000000000 }}");
  ExpectExhausted(
      "{% set n = namespace(t='x') %}{% for i in range(1000) %}"
      "{% set n.t = n.t ~ n.t %}{% endfor %}");
  ExpectExhausted(
      "{% set n = namespace(t=[1]) %}{% for i in range(1000) %}"
      "{% set n.t = n.t + n.t %}{% endfor %}");
  ExpectExhausted(
      "{% set n = namespace(t='x') %}{% for i in range(1000) %}"
      "{% set n.t = n.t | replace('x', 'xx') %}{% endfor %}");
  ExpectExhausted("{{ 'x' | center(100000000000) }}");
  ExpectExhausted("{{ '%100000000000d' % 5 }}");
  ExpectExhausted("{{ '%.100000000000f' % 5 }}");
  ExpectExhausted("{{ 'a\\nb' | indent(100000000000) }}");
  ExpectExhausted("{{ [1] | tojson(indent=100000000000) }}");
  ExpectExhausted("{{ 10 ** 1000000000 }}");
  ExpectExhausted("{{ 2 ** 126 * 4 }}");
  ExpectExhausted("{{ strftime_now('%1000000000d') }}");
  // Values that hold each other many times, or deeply.
  const std::string doubled =
      "{% set n = namespace(t=[1]) %}{% for i in range(60) %}"
      "{% set n.t = [n.t, n.t] %}{% endfor %}";
  ExpectExhausted(doubled + "{{ n.t }}");
  ExpectExhausted(doubled + "{{ n.t | tojson | length }}");
  ExpectExhausted(doubled +
                  "{% set m = n.t %}{% set n.t = [1] %}{% for i in range(60) %}"
                  "{% set n.t = [n.t, n.t] %}{% endfor %}{{ m == n.t }}");
  ExpectExhausted(
      "{% set n = namespace(t=[1]) %}{% for i in range(100000) %}"
      "{% set n.t = [n.t] %}{% endfor %}");
  ExpectExhausted(
      "{% set n = namespace(t=[1]) %}{% for i in range(100000) %}"
      "{% set n.t = n.t | map('string') %}{% endfor %}");
  ExpectExhausted("{% set n = namespace() %}{% set n.n = n %}{{ n }}");
  // Searches that would take the product of both lengths.
  EXPECT_TRUE(Render("{{ ('a' * 1000000) in ('a' * 999999 ~ 'b') }}").ok());
  ExpectExhausted("{{ ('a' * 2000000).rfind('b' ~ 'a' * 1000000) }}");
  ordered_json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = ordered_json::array({deep});
  ExpectExhausted("", {{"deep", deep}});
}

TEST(Jinja, ALoopOverAThousandMessagesIsWithinTheLimits) {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 1000; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", Repeated("some words ", 100)}});
  }
  const auto source = ReadFile(DataFolder() + "/qwen/template.jinja", 1 << 20);
  const auto text = Render(*source, {{"messages", messages}});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_GT(text->size(), 1'000'000u);
}

TEST(Jinja, ATemplateServesSeveralThreads) {
  const auto made = JinjaTemplate::Parse(
      "{% set n = namespace(t=0) %}{% for i in range(1000) %}"
      "{% set n.t = n.t + x %}{% endfor %}{{ n.t }}",
      "test");
  std::vector<std::thread> threads;
  for (int x = 0; x < 4; ++x) {
    threads.emplace_back([&made, x] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(made->Render({{"x", x}}, kNow).value(), std::to_string(1000 * x));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ChatFiles, TheTemplateComesFromTheFirstFileThatHasOne) {
  const std::string config =
      R"({"chat_template": "B", "bos_token": {"content": "<s>"}, "eos_token": "</s>"})";
  ChatFileTexts texts = {.chat_template_jinja = "A",
                         .tokenizer_config_json = config,
                         .chat_template_json = R"({"chat_template": "C"})"};
  auto found = FindChatTemplate(texts);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->source, "A");
  EXPECT_EQ(found->file, "chat_template.jinja");
  EXPECT_EQ(found->bos_token, "<s>");
  EXPECT_EQ(found->eos_token, "</s>");
  texts.chat_template_jinja.reset();
  found = FindChatTemplate(texts);
  EXPECT_EQ(found->source, "B");
  EXPECT_EQ(found->file, "tokenizer_config.json");
  for (const char* const without : {"{}", R"({"chat_template": null})",
                                    R"({"chat_template": {"user": "{content}"}})"}) {
    texts.tokenizer_config_json = without;
    found = FindChatTemplate(texts);
    EXPECT_EQ(found->source, "C") << without;
    EXPECT_EQ(found->bos_token, std::nullopt);
  }
  texts.chat_template_json.reset();
  EXPECT_EQ(FindChatTemplate(texts)->source, std::nullopt);
  EXPECT_EQ(FindChatTemplate({})->source, std::nullopt);
}

TEST(ChatFiles, OfAListTheDefaultIsTaken) {
  const auto found = [](const std::string& held) {
    return FindChatTemplate(
        {.tokenizer_config_json = "{\"chat_template\": " + held + "}"});
  };
  EXPECT_EQ(found(R"([{"name": "rag", "template": "R"},
                      {"name": "default", "template": "D"}])")
                ->source,
            "D");
  EXPECT_THAT(
      std::string(found(R"([{"name": "rag", "template": "R"}])").status().message()),
      HasSubstr("there are: 'rag'"));
  EXPECT_THAT(std::string(found("[1]").status().message()),
              StartsWith("tokenizer_config.json"));
  EXPECT_FALSE(found("5").ok());
  EXPECT_FALSE(FindChatTemplate({.tokenizer_config_json = "[]"}).ok());
  EXPECT_FALSE(FindChatTemplate({.tokenizer_config_json = R"({"bos_token": 5})"}).ok());
  EXPECT_FALSE(FindChatTemplate({.chat_template_json = "{"}).ok());
}

}  // namespace
}  // namespace mnemon
