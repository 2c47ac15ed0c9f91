// SPDX-License-Identifier: MIT
// Tokenizers of byte pairs against PyPI's `tokenizers` 0.23.3: ids and texts of
// tests/model/text/data, and of more below $MNEMON_TEST_DATA.
#include "model/text/bpe_tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/files/file.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/bpe_trainer.h"
#include "model/text/pattern.h"
#include "model/text/unicode/unicode.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

class BpeCases : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    namespace fs = std::filesystem;
    std::string dir = StrCat(MNEMON_SOURCE_DIR, "/tests/model/text/data/", GetParam());
    const char* const more = std::getenv("MNEMON_TEST_DATA");
    if (!fs::exists(dir) && more != nullptr) {
      dir = StrCat(more, "/golden_hf/tokenizers/", GetParam());
    }
    if (!fs::exists(dir)) GTEST_SKIP() << "no " << dir;
    auto made = ParseTokenizer(*ReadFile(dir + "/tokenizer.json", 1 << 24));
    ASSERT_TRUE(made.ok()) << made.status();
    tokenizer_ = *std::move(made);
    const std::string lines = *ReadFile(dir + "/cases.jsonl", 1 << 24);
    for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      cases_.push_back(json::parse(line));
    }
    ASSERT_EQ(cases_.size(), 460u);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<json> cases_;
};

TEST_P(BpeCases, TextsBecomeTheirIds) {
  for (const json& one : cases_) {
    if (!one.contains("text")) continue;
    const auto text = one["text"].get<std::string>();
    const auto ids = one["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->EncodeWhole(text).value(), ids) << text;
    EXPECT_EQ(tokenizer_->Encode(text).value(), one.value("plain", ids)) << text;
  }
}

TEST_P(BpeCases, IdsBecomeTheirText) {
  for (const json& one : cases_) {
    const auto ids = one["ids"].get<Ids>();
    const std::string text = one.contains("decoded") ? one["decoded"].get<std::string>()
                                                     : one["text"].get<std::string>();
    EXPECT_EQ(tokenizer_->DecodeText(ids, /*special=*/true), text) << one;
    EXPECT_EQ(tokenizer_->DecodeText(ids, /*special=*/false),
              one.value("decoded_skip", text))
        << one;
  }
}

INSTANTIATE_TEST_SUITE_P(Public, BpeCases,
                         testing::Values("qwen", "llama2", "llama3", "smollm2"));

// Merges of letters alone: {"a": 0, "b": 1, ..} and what they make.
json Small() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 6, "content": "<x>", "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5},
              "merges": ["b c", ["a", "b"], "a bc"]}})");
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Make(const json& file) {
  return ParseTokenizer(file.dump());
}
Ids Encoded(const json& file, std::string_view text) {
  return Make(file).value()->Encode(text).value();
}

TEST(BpeTokenizer, MergesTheFirstInTheListFirst) {
  EXPECT_EQ(Encoded(Small(), "abc"), (Ids{5}));
  EXPECT_EQ(Encoded(Small(), "ab cab<x>bc"), (Ids{3, 2, 3, 6, 4}));
  EXPECT_EQ(Encoded(Small(), ""), Ids{});
  EXPECT_EQ(Encoded(Small(), "azb"), (Ids{3}));  // what is no token vanishes
  // One after the other, however long.
  const std::string many(200'000, 'a');
  EXPECT_EQ(Encoded(Small(), many).size(), many.size());
}

using Merges = std::vector<std::pair<std::string, std::string>>;

// The definition: repeatedly merges the neighbours whose merge comes first in the list,
// the leftmost ones first.
std::vector<std::string> Merged(const Merges& merges, std::string_view word) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  for (size_t rank = 0; rank < merges.size();) {
    const auto& [left, right] = merges[rank++];
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (symbols[i] != left || symbols[i + 1] != right) continue;
      symbols[i] += symbols[i + 1];
      symbols.erase(symbols.begin() + static_cast<int64_t>(i) + 1);
      rank = 0;
      break;
    }
  }
  return symbols;
}

TEST(BpeTokenizer, WordsOfAllLengthsMergeByTheDefinition) {
  std::mt19937 random(7);
  for (const bool bytes : {false, true}) {
    json file = Small();
    file["added_tokens"] = json::array();
    std::vector<std::string> tokens = {"a", "b", "c"};
    Merges merges;
    json vocab = {{"a", 0}, {"b", 1}, {"c", 2}};
    while (tokens.size() < 60) {
      const std::string left = tokens[random() % tokens.size()],
                        right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 20 || vocab.contains(left + right)) continue;
      merges.emplace_back(left, right);
      vocab[left + right] = tokens.size();
      tokens.push_back(left + right);
    }
    file["model"]["merges"] = merges;
    file["model"]["vocab"] = vocab;
    if (bytes) {
      file["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers",
                                {file["pre_tokenizer"],
                                 {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"use_regex", false}}}}};
    }
    const auto tokenizer = Make(file).value();
    // Many of the short ones come again.
    std::string text;
    Ids expected;
    for (size_t i = 0; i < 400; ++i) {
      std::string word;
      const size_t size = i < 80 ? i + 1 : 1 + random() % 18;
      while (word.size() < size) word += "abc"[random() % 3];
      Ids ids;
      for (const std::string& one : Merged(merges, word)) {
        ids.push_back(vocab[one].get<int32_t>());
      }
      EXPECT_EQ(tokenizer->Encode(word).value(), ids) << word;
      expected.insert(expected.end(), ids.begin(), ids.end());
      text += word + " ";
    }
    EXPECT_EQ(tokenizer->Encode(text).value(), expected);
    expected.insert(expected.end(), expected.begin(), expected.end());
    EXPECT_EQ(tokenizer->Encode(text + text).value(), expected);
  }
}

TEST(BpeTokenizer, SplitsHaveTheirBehaviours) {
  using Parts = std::vector<std::string>;
  const auto parts = [](const char* behaviour, bool invert, json pattern) {
    json file = Small();
    file["added_tokens"] = json::array();
    file["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", std::move(pattern)},
                             {"behavior", behaviour},
                             {"invert", invert}};
    file["model"] = json::parse(R"({
      "type": "BPE", "ignore_merges": true, "merges": [],
      "vocab": {"-": 0, "a": 1, "b": 2, "--": 3, "-a": 4, "a-": 5, "-b": 6, "b-": 7}})");
    const auto tokenizer = Make(file).value();
    Parts found;
    const Ids ids = tokenizer->Encode("-a--b-").value();
    for (const int32_t id : ids) {
      found.emplace_back(tokenizer->TokenBytes(id));
    }
    return found;
  };
  // As PyPI's `tokenizers` cuts.
  for (const json& pattern : {json({{"String", "-"}}), json({{"Regex", "-"}})}) {
    EXPECT_EQ(parts("Removed", false, pattern), (Parts{"a", "b"}));
    EXPECT_EQ(parts("Removed", true, pattern), (Parts{"-", "-", "-", "-"}));
    EXPECT_EQ(parts("MergedWithPrevious", false, pattern),
              (Parts{"-", "a-", "-", "b-"}));
    EXPECT_EQ(parts("MergedWithPrevious", true, pattern),
              (Parts{"-a", "-", "-b", "-"}));
    EXPECT_EQ(parts("MergedWithNext", false, pattern), (Parts{"-a", "-", "-b", "-"}));
    EXPECT_EQ(parts("MergedWithNext", true, pattern), (Parts{"-", "a-", "-", "b-"}));
    for (const bool invert : {false, true}) {
      EXPECT_EQ(parts("Isolated", invert, pattern),
                (Parts{"-", "a", "-", "-", "b", "-"}));
      EXPECT_EQ(parts("Contiguous", invert, pattern),
                (Parts{"-", "a", "--", "b", "-"}));
    }
  }
}

TEST(BpeTokenizer, AModelMayHaveMoreIds) {
  const auto made = ParseTokenizer(Small().dump(), /*vocab=*/64);
  EXPECT_EQ((*made)->size(), 64);
  EXPECT_EQ((*made)->TokenBytes(63), "");
  EXPECT_EQ((*made)->TokenBytes(6), "<x>");
  EXPECT_THAT(std::string(ParseTokenizer(Small().dump(), 6).status().message()),
              HasSubstr("7 tokens, the model has 6"));
}

TEST(BpeTokenizer, WhatIsNotSupportedIsNamed) {
  const auto fault = [](const char* pointer, const json& value) {
    json file = Small();
    file[json::json_pointer(pointer)] = value;
    return std::string(Make(file).status().message());
  };
  EXPECT_THAT(fault("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(fault("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word"));
  EXPECT_THAT(fault("/model/more", 1), HasSubstr("'more'"));
  EXPECT_THAT(fault("/model/type", "Unigram"), HasSubstr("'Unigram'"));
  EXPECT_THAT(fault("/model/unk_token", "?"), HasSubstr("unk_token '?'"));
  EXPECT_THAT(fault("/model/merges/0", "b c d"), HasSubstr("merge 0"));
  EXPECT_THAT(fault("/model/merges/0", "c b"), HasSubstr("'cb' is not in its vocab"));
  EXPECT_THAT(fault("/model/vocab/z", 0), HasSubstr("the same id 0"));
  EXPECT_THAT(fault("/model/vocab/z", -1), HasSubstr("'z'"));
  EXPECT_THAT(fault("/model/vocab/z", 9999999), HasSubstr("9999999"));
  EXPECT_THAT(fault("/added_tokens/0/id", 8000000), HasSubstr("8000000"));
  EXPECT_THAT(fault("/added_tokens/0/id", 1), HasSubstr("id 1 is that of 'b'"));
  EXPECT_THAT(fault("/added_tokens/0/content", "ab"),
              HasSubstr("'ab' has the id 6, in the vocab 3"));
  EXPECT_THAT(
      fault("/normalizer", {{"type", "Precompiled"}}),
      HasSubstr("normalizer is of type 'Precompiled', supported: Lowercase, NFC"));
  EXPECT_THAT(fault("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
              HasSubstr("pre_tokenizer is of type 'BertPreTokenizer', supported"));
  EXPECT_THAT(fault("/post_processor", {{"type", "BertProcessing"}}),
              HasSubstr("post_processor is of type 'BertProcessing', supported"));
  EXPECT_THAT(fault("/decoder", {{"type", "WordPiece"}}),
              HasSubstr("decoder is of type 'WordPiece', supported"));
  const auto split = [&](const char* regular) {
    return fault("/pre_tokenizer", {{"type", "Split"},
                                    {"pattern", {{"Regex", regular}}},
                                    {"behavior", "Isolated"}});
  };
  EXPECT_EQ(split(R"(\p{N}{1,3}|[^\s\P{L}]+)"), "");
  EXPECT_THAT(split(R"(\p{Lu})"), HasSubstr("'Lu' is not supported"));
  EXPECT_THAT(split("(a"), HasSubstr("'(a'"));
  EXPECT_THAT(split(R"(\ba)"), HasSubstr(R"(\b is not supported)"));
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 20; ++i) {
    nested = {{"type", "Sequence"}, {"normalizers", json::array({nested})}};
  }
  EXPECT_THAT(fault("/normalizer", nested), HasSubstr("nested too deeply"));
  const json many(100, {{"type", "Digits"}});
  EXPECT_THAT(fault("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", many}}),
              HasSubstr("comes after 65 steps, at most 64"));
}

TEST(BpeTokenizer, TextThatIsNotUtf8IsRefused) {
  const auto encoded = Make(Small()).value()->Encode("ab\xff");
  EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(encoded.status().message()), HasSubstr("at byte 2"));
}

TEST(BpeTrainer, MergesWhatOccursMostOften) {
  auto trainer = BpeTrainer::Create({"<end>"}).value();
  ASSERT_TRUE(trainer.Add("low low low lower newest newest widest <end>").ok());
  const std::string file = trainer.Train(1 + 256 + 6).value();
  const auto made = ParseTokenizer(file).value();
  ASSERT_EQ(made->size(), 1 + 256 + 6);
  // Among equal counts the pair with the smaller ids.
  const json merges = json::parse(file)["model"]["merges"];
  EXPECT_EQ(merges[0], json({"l", "o"}));
  EXPECT_EQ(merges[1], json({"lo", "w"}));
  const std::string text = " low low caf\u00e9\n";
  EXPECT_EQ(made->DecodeText(made->Encode(text).value(), true), text);
  EXPECT_LT(made->Encode(text)->size(), text.size());
  EXPECT_EQ(made->Encode("<end>").value(), Ids{0});
  EXPECT_TRUE(made->special(0));
  EXPECT_FALSE(made->special(1));
  // The same texts, the same file; where nothing occurs twice it ends.
  auto again = BpeTrainer::Create({"<end>"}).value();
  ASSERT_TRUE(again.Add("low low low lower newest newest widest <end>").ok());
  EXPECT_EQ(again.Train(1 + 256 + 6).value(), file);
  EXPECT_LT(ParseTokenizer(again.Train(5000).value()).value()->size(), 300);
  EXPECT_FALSE(trainer.Train(256).ok());
  EXPECT_FALSE(BpeTrainer::Create({"a", "a"}).ok());
  EXPECT_FALSE(BpeTrainer::Create({"\xff"}).ok());
}

TEST(Pattern, EndlessWorkIsCutShort) {
  const Pattern pattern = Pattern::Compile("(a|aa)+[bc]").value();
  const std::string many(40, 'a');
  EXPECT_EQ(pattern.Find(many, 0).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Unicode, FormsComposeAndOrder) {
  const auto nfc = [](std::string_view text) {
    return Normalised(NormalForm::kC, text);
  };
  EXPECT_EQ(nfc("a\u0301"), "\u00e1");
  EXPECT_EQ(nfc("a\u0323\u0302"), nfc("a\u0302\u0323"));
  EXPECT_EQ(nfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(nfc("\u2126"), "\u03a9");
  EXPECT_EQ(nfc("\u0301xyza\u0301bce\u0301"), "\u0301xyz\u00e1bc\u00e9");
  EXPECT_EQ(nfc("a\u0302x\u0323\u0302 \u0301"), "\u00e2x\u0323\u0302 \u0301");
  EXPECT_EQ(nfc(nfc("o\u0308\u0304x\u0301")), nfc("o\u0308\u0304x\u0301"));
  EXPECT_EQ(Normalised(NormalForm::kD, "\u00e1\ud55c"), "a\u0301\u1112\u1161\u11ab");
  EXPECT_EQ(Normalised(NormalForm::kKC, "\ufb01\u00b2\u212b"), "fi2\u00c5");
  EXPECT_EQ(Normalised(NormalForm::kKD, "\u212b"), "A\u030a");
  EXPECT_EQ(LowerCase("\u00c4B\u0130\u03a3"), "\u00e4bi\u0307\u03c3");
  EXPECT_TRUE(IsIn(CharacterClass::kAccent, U'\u0301'));
  EXPECT_TRUE(IsIn(CharacterClass::kLetter, U'\u00e1'));
  EXPECT_FALSE(IsIn(CharacterClass::kLetter, U'1'));
  EXPECT_TRUE(IsIn(CharacterClass::kNumber, U'\u00b2'));
}

}  // namespace
}  // namespace mnemon
