// SPDX-License-Identifier: MIT
// Tokenizers of GGUF files: those of tests/model/text/data (and below
// $MNEMON_TEST_DATA), told in the keys of such a file, have the same ids as
// tokenizer.json has by PyPI's `tokenizers`.
#include "model/io/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/gguf_image.h"

namespace mnemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct TokenizerCase {
  const char* name;
  const char* pre;  // null: SentencePiece
};

std::string PrintToString(const TokenizerCase& one) { return one.name; }

// Keys of a GGUF file for the tokenizer of its tokenizer.json.
std::string ImageOf(const json& tokenizer, const char* pre) {
  std::map<int64_t, std::string> by_id;
  std::map<int64_t, int32_t> types;
  std::map<std::string, float> scores;
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) by_id[id] = token;
  for (const json& added : tokenizer["added_tokens"]) {
    by_id[added["id"]] = added["content"];
    types[added["id"]] = added["special"] ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (const json& merge : tokenizer["model"]["merges"]) {
    std::string left, right;
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      left = text.substr(0, text.find(' '));
      right = text.substr(text.find(' ') + 1);
    } else {
      left = merge[0];
      right = merge[1];
    }
    scores.emplace(left + right, -static_cast<float>(merges.size()));
    merges.push_back(StrCat(left, " ", right));
  }
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;
  std::vector<float> all_scores;
  for (const auto& [id, token] : by_id) {
    EXPECT_EQ(id, static_cast<int64_t>(tokens.size()));
    const bool byte = pre == nullptr && token.size() == 6 && token.starts_with("<0x");
    tokens.push_back(token);
    kinds.push_back(types.contains(id) ? types[id] : byte ? 6 : 1);
    all_scores.push_back(scores.contains(token) ? scores[token] : -1e6F);
  }
  GgufImage image;
  image.Text("tokenizer.ggml.model", pre == nullptr ? "llama" : "gpt2");
  image.Texts("tokenizer.ggml.tokens", tokens);
  image.Integers("tokenizer.ggml.token_type", kinds);
  if (pre == nullptr) {
    image.Floats("tokenizer.ggml.scores", all_scores);
    image.Integer("tokenizer.ggml.unknown_token_id", 0);
  } else {
    image.Text("tokenizer.ggml.pre", pre);
    image.Texts("tokenizer.ggml.merges", merges);
  }
  const std::string post = tokenizer["post_processor"].dump();
  for (const auto& [id, token] : by_id) {
    if (types.contains(id) && post.find(json(token).dump()) != post.npos) {
      image.Integer("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(id));
    }
  }
  return image.Build();
}

class GgufTokenizerCases : public testing::TestWithParam<TokenizerCase> {};

TEST_P(GgufTokenizerCases, TextsBecomeTheIdsOfTheReference) {
  namespace fs = std::filesystem;
  const auto& [name, pre] = GetParam();
  std::string dir = StrCat(MNEMON_SOURCE_DIR, "/tests/model/text/data/", name);
  const char* const more = std::getenv("MNEMON_TEST_DATA");
  if (!fs::exists(dir) && more != nullptr) {
    dir = StrCat(more, "/golden_hf/tokenizers/", name);
  }
  if (!fs::exists(dir)) GTEST_SKIP() << "no " << dir;
  const json reference = json::parse(*ReadFile(dir + "/tokenizer.json", 1 << 24));
  const auto gguf = ParseGguf(ImageOf(reference, pre));
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  const auto text = GgufTokenizerJson(*gguf);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto tokenizer = ParseTokenizer(**text);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  // What such a file cannot say.
  std::vector<std::string> told_more;
  for (const json& added : reference["added_tokens"]) {
    for (const char* const flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
      if (added[flag]) told_more.push_back(added["content"]);
    }
  }
  int checked = 0;
  const std::string lines = *ReadFile(dir + "/cases.jsonl", 1 << 24);
  for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const json one = json::parse(line);
    if (!one.contains("text")) continue;
    const std::string given = one["text"];
    if (std::ranges::any_of(told_more, [&](const std::string& token) {
          return given.find(token) != given.npos;
        })) {
      continue;
    }
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ((*tokenizer)->EncodeWhole(given).value(), ids) << given;
    if (one.contains("decoded")) {
      EXPECT_EQ((*tokenizer)->DecodeText(ids, true), one["decoded"].get<std::string>());
    }
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

INSTANTIATE_TEST_SUITE_P(, GgufTokenizerCases,
                         testing::Values(TokenizerCase{"llama2", nullptr},
                                         TokenizerCase{"llama3", "llama-bpe"},
                                         TokenizerCase{"qwen", "qwen35"},
                                         TokenizerCase{"smollm2", "smollm"}),
                         [](const auto& info) { return std::string(info.param.name); });

// Keys of a small tokenizer; a key that is given is as given.
absl::StatusOr<std::optional<std::string>> Made(
    const std::function<void(GgufImage&, const std::string& key)>& given = {},
    const std::string& replaced = "", const char* model = "gpt2") {
  GgufImage image;
  const auto add = [&](const char* name,
                       const std::function<void(std::string)>& value) {
    const std::string key = StrCat("tokenizer.ggml.", name);
    if (replaced != name) return value(key);
    if (given) given(image, key);
  };
  add("model", [&](std::string key) { image.Text(key, model); });
  add("pre", [&](std::string key) { image.Text(key, "gpt-2"); });
  add("tokens", [&](std::string key) { image.Texts(key, {"a", "b", "ab", "<s>"}); });
  add("token_type", [&](std::string key) { image.Integers(key, {1, 1, 1, 3}); });
  add("scores", [&](std::string key) { image.Floats(key, {-3, -3, -1, 0}); });
  add("merges", [&](std::string key) { image.Texts(key, {"a b"}); });
  add("bos_token_id", [&](std::string key) { image.Integer(key, 3); });
  add("add_bos_token", [&](std::string key) { image.Flag(key, true); });
  return GgufTokenizerJson(*ParseGguf(image.Build()));
}

std::vector<int32_t> IdsOf(const absl::StatusOr<std::optional<std::string>>& json,
                           std::string_view text) {
  return *(*ParseTokenizer(**json))->EncodeWhole(text);
}

TEST(GgufTokenizer, TellsItsSpecialTokens) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(IdsOf(Made(), "aab<s>"), (Ids{3, 0, 2, 3}));
  const auto flag = [](bool value) {
    return
        [value](GgufImage& image, const std::string& key) { image.Flag(key, value); };
  };
  EXPECT_EQ(IdsOf(Made(flag(false), "add_bos_token"), "ab"), (Ids{2}));
  EXPECT_EQ(IdsOf(Made({}, "add_bos_token"), "ab"), (Ids{2}));
  EXPECT_EQ(IdsOf(Made({}, "pre"), "ab"), (Ids{3, 2}));
  EXPECT_EQ(IdsOf(Made({}, "token_type"), "<s>"), (Ids{3}));
  const auto many = [](GgufImage& image, const std::string& key) {
    image.Integer(key, 99);
  };
  EXPECT_EQ(IdsOf(Made(many, "bos_token_id"), "ab"), (Ids{2}));
  EXPECT_EQ(*Made({}, "model"), std::nullopt);
  EXPECT_EQ(*Made({}, "", "none"), std::nullopt);
}

TEST(GgufTokenizer, FaultsNameTheKey) {
  const auto fault = [](const absl::StatusOr<std::optional<std::string>>& made) {
    return std::string(made.status().message());
  };
  const auto texts = [](std::vector<std::string> values) {
    return [values](GgufImage& image, const std::string& key) {
      image.Texts(key, values);
    };
  };
  const auto text = [](std::string value) {
    return
        [value](GgufImage& image, const std::string& key) { image.Text(key, value); };
  };
  EXPECT_THAT(fault(Made({}, "", "bert")),
              HasSubstr("'tokenizer.ggml.model' is 'bert', supported: gpt2, llama"));
  EXPECT_THAT(fault(Made(text("tekken"), "pre")),
              HasSubstr("'tokenizer.ggml.pre' is 'tekken', supported: gpt-2, default"));
  EXPECT_THAT(fault(Made({}, "tokens")), HasSubstr("'tokenizer.ggml.tokens' must be"));
  EXPECT_THAT(fault(Made(text("x"), "merges")), HasSubstr("'tokenizer.ggml.merges'"));
  EXPECT_THAT(fault(Made(texts({"a", "b", "a", "c"}), "tokens")),
              HasSubstr("'tokenizer.ggml.tokens' has 'a' twice, at 0 and 2"));
  EXPECT_THAT(fault(Made(texts({"a", "\xFF", "c", "d"}), "tokens")),
              HasSubstr("'tokenizer.ggml.tokens' has no UTF-8 at index 1"));
  EXPECT_THAT(
      fault(Made(texts({"a"}), "tokens")),
      HasSubstr("'tokenizer.ggml.token_type' has not one integer for each of 1"));
  EXPECT_THAT(fault(Made({}, "scores", "llama")), HasSubstr("'tokenizer.ggml.scores'"));
  const auto floats = [](GgufImage& image, const std::string& key) {
    image.Floats(key, {NAN, 0, 0, 0});
  };
  EXPECT_THAT(fault(Made(floats, "scores", "llama")),
              HasSubstr("'tokenizer.ggml.scores' has not one finite number"));
  EXPECT_THAT(
      fault(Made(texts({std::string(40000, 'a'), "b", "c", "d"}), "tokens", "llama")),
      HasSubstr("'tokenizer.ggml.tokens' has tokens that are too long"));
}

}  // namespace
}  // namespace mnemon
