// SPDX-License-Identifier: MIT
#include "model/text/tokenizer.h"

#include <numeric>

#include "base/error.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/char_tokenizer.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Lt;
using testing::SizeIs;
using testing::StartsWith;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(CharTokenizer, IdsAreSortedCodePoints) {
  const auto tokenizer = MakeCharTokenizer(
                             "b\xc3\xa9\na\xf0\x9f\x98\x80"
                             "ab")
                             .value();
  ASSERT_EQ(tokenizer->size(), 5);
  EXPECT_THAT(tokenizer->Encode("ab\n\xc3\xa9\xf0\x9f\x98\x80").value(),
              ElementsAre(1, 2, 0, 3, 4));
  EXPECT_EQ(tokenizer->TokenBytes(3), "\xc3\xa9");
  const std::vector<int32_t> ids = {4, 0, 1};
  EXPECT_EQ(tokenizer->Decode(ids).value(), "\xf0\x9f\x98\x80\na");
  EXPECT_THAT(tokenizer->Encode("").value(), ElementsAre());
}

TEST(CharTokenizer, UnknownCharacterIsNamed) {
  const auto tokenizer = MakeCharTokenizer("abc \xe2\x82\xac").value();
  const absl::Status status = tokenizer->Encode("a\xe2\x82\xac b\xc3\xa9 x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Message(status),
      "unknown character '\xc3\xa9' (U+00E9) at byte 6: leave it out or replace it; "
      "the model knows 5 characters: space a-c \xe2\x82\xac");
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "UNKNOWN_CHARACTER");
  EXPECT_EQ(detail->metadata.at("character"), "\xc3\xa9");
  EXPECT_EQ(detail->metadata.at("offset"), "6");
  EXPECT_THAT(Message(tokenizer->Encode("\n").status()), HasSubstr("'\\x0a' (U+000A)"));
  EXPECT_THAT(Message(tokenizer->Encode("\xf0\x9f\x98\x80").status()),
              HasSubstr("(U+1F600) at byte 0"));
}

TEST(CharTokenizer, UnknownCharactersAreLeftOutOrReplacedOnDemand) {
  constexpr auto kSkip = UnknownCharacters::kSkip;
  constexpr auto kReplace = UnknownCharacters::kReplace;
  const std::string text =
      "a\xe2\x82\xac\xf0\x9f\x98\x80"
      "b\x01";
  struct Case {
    const char* characters;
    const char* replaced;
  };
  for (const Case& c : {Case{"ab ?\xef\xbf\xbd",
                             "a\xef\xbf\xbd\xef\xbf\xbd"
                             "b\xef\xbf\xbd"},
                        Case{"ab ?", "a??b?"}, Case{"ab ", "a  b "}}) {
    const auto refusing = MakeCharTokenizer(c.characters).value();
    EXPECT_EQ(refusing->unknown_characters(), UnknownCharacters::kRefuse);
    const auto decoded = [&](const Tokenizer& tokenizer, UnknownCharacters unknown) {
      return *tokenizer.Decode(tokenizer.EncodeWith(text, unknown).value());
    };
    for (const auto own : {UnknownCharacters::kRefuse, kSkip, kReplace}) {
      const auto tokenizer = WithUnknownCharacters(*refusing, own);
      EXPECT_EQ(tokenizer->unknown_characters(), own);
      EXPECT_EQ(decoded(*tokenizer, kSkip), "ab");
      EXPECT_EQ(decoded(*tokenizer, kReplace), c.replaced);
      for (const auto unknown : {UnknownCharacters::kRefuse, kSkip, kReplace}) {
        // What is not UTF-8 stays refused, what is known is what it was.
        EXPECT_THAT(Message(tokenizer->EncodeWith("ab\xff", unknown).status()),
                    HasSubstr("not UTF-8 at byte 2"));
        EXPECT_EQ(*tokenizer->EncodeWith("ba", unknown), *refusing->Encode("ba"));
      }
      EXPECT_THAT(
          Message(tokenizer->EncodeWith(text, UnknownCharacters::kRefuse).status()),
          HasSubstr("(U+20AC) at byte 1: leave it out"));
      const auto as_model = tokenizer->EncodeWith(text, UnknownCharacters::kAsModel);
      EXPECT_EQ(as_model.status(), tokenizer->Encode(text).status());
      EXPECT_EQ(as_model.ok(), own != UnknownCharacters::kRefuse);
      if (!as_model.ok()) continue;
      EXPECT_EQ(*as_model, *tokenizer->Encode(text));
      EXPECT_EQ(*as_model, *tokenizer->EncodeWith(text, own));
    }
  }
}

TEST(CharTokenizer, WhatNothingCanReplaceIsNamed) {
  const auto tokenizer = MakeCharTokenizer("abc").value();
  const absl::Status status =
      tokenizer->EncodeWith("abX", UnknownCharacters::kReplace).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Message(status),
      "unknown character 'X' (U+0058) at byte 2: nothing can replace it, the model "
      "knows none of U+FFFD, '?' and ' ', only 3 characters: a-c");
  EXPECT_EQ(GetErrorDetail(status)->reason, "UNKNOWN_CHARACTER");
  EXPECT_EQ(*tokenizer->EncodeWith("ab", UnknownCharacters::kReplace),
            (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(tokenizer->EncodeWith("X", UnknownCharacters::kSkip)->empty());
}

TEST(CharTokenizer, TheModelsWayIsInItsFile) {
  const auto refusing = MakeCharTokenizer("ab").value();
  EXPECT_THAT(refusing->ToJson(), testing::Not(HasSubstr("unknown")));
  for (const auto unknown : {UnknownCharacters::kSkip, UnknownCharacters::kReplace}) {
    const std::string json = WithUnknownCharacters(*refusing, unknown)->ToJson();
    EXPECT_EQ(nlohmann::json::parse(json)["model"]["unknown_characters"],
              std::string(Name(unknown)));
    const auto parsed = ParseTokenizer(json);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ((*parsed)->unknown_characters(), unknown);
    EXPECT_EQ((*parsed)->ToJson(), json);
    EXPECT_EQ(WithUnknownCharacters(**parsed, UnknownCharacters::kRefuse)->ToJson(),
              refusing->ToJson());
  }
  // The default may be given explicitly.
  const auto parsed = ParseTokenizer(
      R"({"version":"1.0","model":{"type":"Char","unknown_characters":"refuse",
          "vocab":{"a":0,"b":1}}})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)->ToJson(), refusing->ToJson());
}

TEST(Tokenizer, WhatEncodesEveryTextIgnoresUnknownCharacters) {
  const auto bytes = MakeByteTokenizer();
  EXPECT_EQ(bytes->unknown_characters(), UnknownCharacters::kAsModel);
  EXPECT_EQ(WithUnknownCharacters(*bytes, UnknownCharacters::kSkip), nullptr);
  EXPECT_EQ(*bytes->EncodeWith("\xff\xe2", UnknownCharacters::kSkip),
            *bytes->Encode("\xff\xe2"));
}

TEST(CharTokenizer, DescribesWhatItKnows) {
  const auto describe = [](const std::string& text) {
    return MakeCharTokenizer(text).value()->Describe();
  };
  EXPECT_EQ(describe("x"), "1 character: x");
  EXPECT_EQ(describe("ba, \n\tz\x7f"
                     "42103"),
            "13 characters: tab newline space , 0-4 a b z U+007F");
  EXPECT_EQ(describe("\xce\xb1\xce\xb2\xce\xb3-"), "4 characters: - \xce\xb1-\xce\xb3");
  std::string many;
  for (char32_t c = 0x4e00; c < 0x5200; c += 2) AppendUtf8(c, many);
  EXPECT_THAT(describe(many), AllOf(StartsWith("512 characters: \xe4\xb8\x80 "),
                                    EndsWith(" more"), SizeIs(Lt(250))));
}

TEST(CharTokenizer, TextMustBeUtf8) {
  const auto tokenizer = MakeCharTokenizer("abc").value();
  const absl::Status status = tokenizer->Encode("ab\xff").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "text is not UTF-8 at byte 2");
  EXPECT_FALSE(MakeCharTokenizer("ab\xc3").ok());
  EXPECT_FALSE(MakeCharTokenizer("").ok());
}

TEST(CharTokenizer, AnOrderIsKept) {
  const auto tokenizer = MakeOrderedCharTokenizer("x3\xc3\xa9\n0");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("0\n\xc3\xa9x").value(),
            (std::vector<int32_t>{4, 3, 2, 0}));
  EXPECT_EQ((*tokenizer)->TokenBytes(2), "\xc3\xa9");
  const auto again = ParseTokenizer((*tokenizer)->ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->Encode("x3").value(), (std::vector<int32_t>{0, 1}));
}

TEST(CharTokenizer, AnOrderHasEachCharacterOnce) {
  const auto fault = [](std::string_view characters) {
    const absl::Status status = MakeOrderedCharTokenizer(characters).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(fault(""), HasSubstr("empty"));
  EXPECT_THAT(fault("ab\xff"), HasSubstr("UTF-8 at byte 2"));
  EXPECT_THAT(fault("ab\n\n"), HasSubstr("'\\x0a' (U+000A) comes again at byte 3"));
}

TEST(ByteTokenizer, EveryByteIsAToken) {
  const auto tokenizer = MakeByteTokenizer();
  ASSERT_EQ(tokenizer->size(), 256);
  std::string bytes(256, '\0');
  std::iota(bytes.begin(), bytes.end(), 0);
  const std::vector<int32_t> ids = tokenizer->Encode(bytes).value();
  for (int32_t i = 0; i < 256; ++i) EXPECT_EQ(ids[i], i);
  EXPECT_EQ(tokenizer->Decode(ids).value(), bytes);
}

TEST(Tokenizer, DecodeRefusesIdsOutOfRange) {
  const auto tokenizer = MakeCharTokenizer("abc").value();
  for (const int32_t bad : {-1, 3, INT32_MAX, INT32_MIN}) {
    const std::vector<int32_t> ids = {0, bad};
    EXPECT_THAT(Message(tokenizer->Decode(ids).status()),
                HasSubstr(StrCat("token ", bad, " at index 1")));
  }
}

TEST(Tokenizer, JsonComesBack) {
  std::string everything;
  for (char c = 0; c < 0x7f; ++c) everything += c;
  everything += "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd";
  const auto original = MakeCharTokenizer(everything).value();
  const auto parsed = ParseTokenizer(original->ToJson());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)->ToJson(), original->ToJson());
  EXPECT_EQ((*parsed)->Encode(everything).value(),
            original->Encode(everything).value());

  const auto bytes = ParseTokenizer(MakeByteTokenizer()->ToJson());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ((*bytes)->size(), 256);
}

TEST(Tokenizer, JsonHasTheOuterSchemaOfHuggingFace) {
  const auto json = nlohmann::json::parse(MakeCharTokenizer("ab").value()->ToJson());
  EXPECT_EQ(json, nlohmann::json::parse(R"({"version": "1.0", "truncation": null,
      "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
      "post_processor": null, "decoder": null,
      "model": {"type": "Char", "vocab": {"a": 0, "b": 1}}})"));
}

TEST(Tokenizer, EveryCharacterOfUnicodeIsTakenInBoundedTime) {
  std::string text;
  for (int c = 0x10000; c < 0x10000 + 200'000; ++c) {
    for (const int byte : {0xf0 | c >> 18, 0x80 | (c >> 12 & 63), 0x80 | (c >> 6 & 63),
                           0x80 | (c & 63)}) {
      text += static_cast<char>(byte);
    }
  }
  const auto tokenizer = ParseTokenizer(MakeCharTokenizer(text).value()->ToJson());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->size(), 200'000);
}

struct Hostile {
  const char* name;
  std::string json;
  const char* fault;
};

std::string WithModel(const std::string& model) {
  return R"({"version":"1.0","model":)" + model + "}";
}
std::string WithVocab(const std::string& vocab) {
  return WithModel(R"({"type":"Char","vocab":)" + vocab + "}");
}

class ParseTokenizerRefuses : public testing::TestWithParam<Hostile> {};

TEST_P(ParseTokenizerRefuses, NamesTheFault) {
  const absl::Status status = ParseTokenizer(GetParam().json).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("tokenizer.json"));
  EXPECT_THAT(Message(status), HasSubstr(GetParam().fault));
  EXPECT_LT(Message(status).size(), 400u);
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseTokenizerRefuses,
    testing::Values(
        Hostile{"not_json", "{", "valid JSON"},
        Hostile{"not_object", "[]", "not an object"},
        Hostile{"no_version", R"({"model":{"type":"Byte"}})", "version"},
        Hostile{"newer_version", R"({"version":"2.0","model":{"type":"Byte"}})",
                "'2.0'"},
        Hostile{"no_model", R"({"version":"1.0"})", "model"},
        Hostile{"unknown_type", WithModel(R"({"type":"WordPiece"})"), "'WordPiece'"},
        Hostile{"type_is_number", WithModel(R"({"type":1})"), "type"},
        Hostile{"unknown_key", R"({"version":"1.0","model":{"type":"Byte"},"x":1})",
                "'x'"},
        Hostile{"unknown_model_key", WithModel(R"({"type":"Byte","merges":[]})"),
                "'merges'"},
        Hostile{
            "normalizer",
            R"({"version":"1.0","normalizer":{"type":"NFC"},"model":{"type":"Byte"}})",
            "normalizer is not supported"},
        Hostile{
            "added_tokens",
            R"({"version":"1.0","added_tokens":[{"id":0}],"model":{"type":"Byte"}})",
            "added_tokens is not supported"},
        Hostile{"empty_vocab", WithVocab("{}"), "vocab"},
        Hostile{"vocab_is_list", WithVocab("[]"), "vocab"},
        Hostile{"no_vocab", WithModel(R"({"type":"Char"})"), "vocab"},
        Hostile{"negative_id", WithVocab(R"({"a":-1})"), "'a'"},
        Hostile{"id_out_of_range", WithVocab(R"({"a":0,"b":2})"), "'b'"},
        Hostile{"id_2_64", WithVocab(R"({"a":18446744073709551616})"), "'a'"},
        Hostile{"id_2_32", WithVocab(R"({"a":4294967296})"), "'a'"},
        Hostile{"id_float", WithVocab(R"({"a":0.0})"), "'a'"},
        Hostile{"id_string", WithVocab(R"({"a":"0"})"), "'a'"},
        Hostile{"duplicate_id", WithVocab(R"({"a":0,"b":0})"), "id 0 is used twice"},
        Hostile{"duplicate_key", WithVocab(R"({"a":0,"a":1})"), "duplicate key 'a'"},
        Hostile{"unknown_of_model",
                WithModel(R"({"type":"Char","unknown_characters":"as_model",
                              "vocab":{"a":0}})"),
                "refuse, skip or replace"},
        Hostile{"unknown_is_number",
                WithModel(R"({"type":"Char","unknown_characters":1,"vocab":{"a":0}})"),
                "refuse, skip or replace"},
        Hostile{"unknown_of_bytes",
                WithModel(R"({"type":"Byte","unknown_characters":"skip"})"),
                "'unknown_characters'"},
        Hostile{"a_vocabulary",
                R"({"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10,
                    "l":11,"m":12,"n":13,"o":14,"p":15,"q":16})",
                "it is a vocabulary (vocab.json)"},
        Hostile{"another_config", R"({"tokenizer_class": "X", "add_bos_token": true})",
                "it is a tokenizer_config.json"},
        Hostile{"empty_token", WithVocab(R"({"":0})"), "not one character"},
        Hostile{"two_characters", WithVocab(R"({"ab":0})"),
                "'ab' is not one character"},
        Hostile{"huge_token", WithVocab("{\"" + std::string(50'000'000, 'a') + "\":0}"),
                "not one character"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mnemon
