// SPDX-License-Identifier: MIT
#include "base/files/json.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using testing::HasSubstr;

TEST(ParseJson, KeepsValues) {
  const auto json =
      ParseJson(R"({"b": [1, -2, 2.5, "x", null, true], "a": {"c": {}}})", "file");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->dump(), R"({"a":{"c":{}},"b":[1,-2,2.5,"x",null,true]})");
}

TEST(ParseJson, EscapedNulInAStringIsAValue) {
  const auto json = ParseJson(R"(["\u0000"])", "file");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)[0], std::string(1, '\0'));
}

struct Refused {
  const char* name;
  std::string text;
  const char* fault;
};

class ParseJsonRefuses : public testing::TestWithParam<Refused> {};

TEST_P(ParseJsonRefuses, NamesFileAndFault) {
  const absl::Status status = ParseJson(GetParam().text, "the file").status();
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("the file is not valid JSON at byte "));
  EXPECT_THAT(message, HasSubstr(GetParam().fault));
  EXPECT_LT(message.size(), 400u);
  for (const char c : message) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

std::string Repeated(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseJsonRefuses,
    testing::Values(
        Refused{"empty", "", "syntax error"},
        Refused{"trailing", "{} x", "syntax error"},
        Refused{"unfinished", "{\"a\": 1", "syntax error"},
        Refused{"duplicate", R"({"a": {"x": 1, "x": 2}})", "duplicate key 'x'"},
        Refused{"escaped_duplicate", R"({"e": 1, "\u0065": 2})", "duplicate key 'e'"},
        Refused{"nul_after_value", std::string("{}\0{}", 5), "at byte 2: NUL"},
        Refused{"nul_in_string", std::string("[\"a\0b\"]", 7), "NUL"},
        Refused{"control_in_string", "[\"a\nb\"]", "control character"},
        Refused{"utf8", "[\"\xff\"]", "UTF-8"},
        Refused{"overlong_utf8", "[\"\xc0\xaf\"]", "UTF-8"},
        Refused{"lone_surrogate", "[\"\\ud800\"]", "surrogate"},
        Refused{"number_overflow", "[1e999]", "number overflow"},
        Refused{"long_token", "[" + std::string(1 << 20, '7') + "e999999]",
                "number overflow"},
        Refused{"long_garbage", "[\"" + std::string(1 << 20, 'x') + "\x01\"]",
                "control"},
        Refused{"deep_arrays", std::string(10'000, '['), "nested deeper than 64"},
        Refused{"very_deep_arrays", std::string(1'000'000, '['),
                "nested deeper than 64"},
        Refused{"deep_objects", Repeated("{\"a\":", 10'000), "nested deeper than 64"},
        Refused{"comment", "{} // no", "syntax error"}),
    [](const auto& info) { return info.param.name; });

TEST(ParseJson, DepthIsCountedNotRecursed) {
  const int depth = 1'000'000;
  const std::string text = std::string(depth, '[') + std::string(depth, ']');
  const auto json = ParseJson(text, "file", {.max_depth = depth});
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_FALSE(ParseJson(text, "file", {.max_depth = depth - 1}).ok());
}

TEST(ParseJson, NodesAreBounded) {
  EXPECT_TRUE(ParseJson("[1,2,3]", "file", {.max_nodes = 4}).ok());
  const absl::Status status = ParseJson("[1,2,3]", "file", {.max_nodes = 3}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 3 values"));
}

TEST(ParseJson, PositionOfADuplicateKeyIsItsOwn) {
  const std::string text = R"({"a": 1, "b": 2, "a": 3})";
  const std::string message(ParseJson(text, "file").status().message());
  EXPECT_THAT(message, HasSubstr("at byte 20:"));
}

}  // namespace
}  // namespace mnemon
