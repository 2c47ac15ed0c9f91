// SPDX-License-Identifier: MIT
#include "model/text/char_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/alphabet.h"
#include "model/text/tokenizer_json.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

absl::Status NotUtf8(size_t offset) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, StrCat("text is not UTF-8 at byte ", offset),
      {.reason = "INVALID_UTF8", .metadata = {{"offset", StrCat(offset)}}});
}

// 'é' (U+00E9)
std::string Named(const std::string& character, char32_t code_point) {
  char name[16];
  std::snprintf(name, sizeof(name), "U+%04X", static_cast<unsigned>(code_point));
  return StrCat("'", EscapeControls(character), "' (", name, ")");
}

// `known`: Describe() of the tokenizer; `replace`: the character was to be replaced.
absl::Status UnknownCharacter(char32_t code_point, size_t offset, bool replace,
                              const std::string& known) {
  std::string character;
  AppendUtf8(code_point, character);
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      StrCat("unknown character ", Named(character, code_point), " at byte ", offset,
             replace ? ": nothing can replace it, the model knows none of U+FFFD, '?' "
                       "and ' ', only "
                     : ": leave it out or replace it; the model knows ",
             known),
      {.reason = "UNKNOWN_CHARACTER",
       .metadata = {{"character", character}, {"offset", StrCat(offset)}}});
}

class CharTokenizer : public Tokenizer {
 public:
  CharTokenizer(const std::vector<char32_t>& characters, UnknownCharacters unknown)
      : unknown_(unknown) {
    MNEMON_CHECK(unknown != UnknownCharacters::kAsModel);
    ascii_.fill(kNone);
    for (const char32_t character : characters) {
      std::string bytes;
      AppendUtf8(character, bytes);
      const auto id = static_cast<int32_t>(bytes_.size());
      ids_[character] = id;
      if (character < ascii_.size()) ascii_[character] = id;
      bytes_.push_back(std::move(bytes));
    }
    MNEMON_CHECK(!bytes_.empty() && ids_.size() == bytes_.size());
    for (const char32_t character : {U'\uFFFD', U'?', U' '}) {
      const auto found = ids_.find(character);
      if (found == ids_.end()) continue;
      replacement_ = found->second;
      break;
    }
    description_ = StrCat(size(), size() == 1 ? " character: " : " characters: ",
                          DescribeAlphabet(characters));
  }

  int32_t size() const override { return static_cast<int32_t>(bytes_.size()); }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    return EncodeWith(text, unknown_);
  }

  absl::StatusOr<std::vector<int32_t>> EncodeWith(
      std::string_view text, UnknownCharacters unknown) const override {
    if (unknown == UnknownCharacters::kAsModel) unknown = unknown_;
    const bool replace = unknown == UnknownCharacters::kReplace;
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    char32_t character;
    for (size_t offset = 0; offset < text.size();) {
      const auto byte = static_cast<unsigned char>(text[offset]);
      if (byte < ascii_.size() && ascii_[byte] != kNone) {
        ids.push_back(ascii_[byte]);
        ++offset;
        continue;
      }
      const size_t begin = offset;
      if (!NextCodePoint(text, offset, character)) return NotUtf8(begin);
      if (const auto found = ids_.find(character); found != ids_.end()) {
        ids.push_back(found->second);
      } else if (replace && replacement_ != kNone) {
        ids.push_back(replacement_);
      } else if (unknown != UnknownCharacters::kSkip) {
        return UnknownCharacter(character, begin, replace, description_);
      }
    }
    return ids;
  }

  UnknownCharacters unknown_characters() const override { return unknown_; }

  std::string_view TokenBytes(int32_t id) const override {
    MNEMON_CHECK(id >= 0 && id < size());
    return bytes_[static_cast<size_t>(id)];
  }

  std::string Describe() const override { return description_; }

  std::string ToJson() const override {
    nlohmann::json vocab = nlohmann::json::object();
    for (size_t id = 0; id < bytes_.size(); ++id) vocab[bytes_[id]] = id;
    nlohmann::json model = {{"type", "Char"}, {"vocab", std::move(vocab)}};
    // Files from before this option are the same.
    if (unknown_ != UnknownCharacters::kRefuse) {
      model["unknown_characters"] = std::string(Name(unknown_));
    }
    return TokenizerJson(model);
  }

 private:
  static constexpr int32_t kNone = -1;

  const UnknownCharacters unknown_;
  std::vector<std::string> bytes_;
  std::unordered_map<char32_t, int32_t> ids_;
  std::array<int32_t, 128> ascii_;  // part of ids_ for most texts
  int32_t replacement_ = kNone;
  std::string description_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeCharTokenizerOf(const std::vector<char32_t>& characters,
                                               UnknownCharacters unknown) {
  return std::make_unique<CharTokenizer>(characters, unknown);
}

std::unique_ptr<Tokenizer> WithUnknownCharacters(const Tokenizer& tokenizer,
                                                 UnknownCharacters unknown) {
  if (tokenizer.unknown_characters() == UnknownCharacters::kAsModel) return nullptr;
  std::vector<char32_t> characters(static_cast<size_t>(tokenizer.size()));
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    size_t end = 0;
    MNEMON_CHECK(NextCodePoint(tokenizer.TokenBytes(id), end, characters[id]));
  }
  return MakeCharTokenizerOf(characters, unknown);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(std::string_view text) {
  if (text.empty()) {
    return absl::InvalidArgumentError("an empty text has no characters to learn from");
  }
  std::set<char32_t> characters;
  char32_t character;
  for (size_t offset = 0; offset < text.size();) {
    if (!NextCodePoint(text, offset, character)) return NotUtf8(offset);
    characters.insert(character);
  }
  return MakeCharTokenizerOf({characters.begin(), characters.end()});
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeOrderedCharTokenizer(
    std::string_view characters) {
  if (characters.empty()) {
    return absl::InvalidArgumentError("a list of characters may not be empty");
  }
  std::vector<char32_t> ordered;
  std::set<char32_t> seen;
  char32_t character;
  for (size_t offset = 0; offset < characters.size();) {
    const size_t begin = offset;
    if (!NextCodePoint(characters, offset, character)) return NotUtf8(begin);
    if (!seen.insert(character).second) {
      return absl::InvalidArgumentError(StrCat(
          "character ",
          Named(std::string(characters.substr(begin, offset - begin)), character),
          " comes again at byte ", begin, ": each stands once, at its id"));
    }
    ordered.push_back(character);
  }
  return MakeCharTokenizerOf(ordered);
}

}  // namespace mnemon
