// SPDX-License-Identifier: MIT
// A tokenizer: text to token ids and back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon {

// What becomes of a character of a text that the vocabulary lacks.
enum class UnknownCharacters { kAsModel, kRefuse, kSkip, kReplace };
inline constexpr std::array<std::string_view, 4> kUnknownCharactersNames = {
    "as_model", "refuse", "skip", "replace"};
inline std::string_view Name(UnknownCharacters value) {
  return kUnknownCharactersNames[static_cast<size_t>(value)];
}

// Constant after construction; safe for concurrent use.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Number of ids: 0 .. size()-1.
  virtual int32_t size() const = 0;
  // INVALID_ARGUMENT, reason UNKNOWN_CHARACTER, names the character, its byte offset
  // and Describe(); text that is not UTF-8 is refused by tokenizers of characters.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const = 0;
  // As Encode, with another way to treat characters that the vocabulary lacks;
  // tokenizers that can encode every text ignore it.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeWith(
      std::string_view text, UnknownCharacters /*unknown*/) const {
    return Encode(text);
  }
  // What Encode does with them: kRefuse, kSkip or kReplace; kAsModel of tokenizers that
  // can encode every text.
  virtual UnknownCharacters unknown_characters() const {
    return UnknownCharacters::kAsModel;
  }
  // The same of a whole text, with the tokens before and behind it.
  absl::StatusOr<std::vector<int32_t>> EncodeWhole(std::string_view text) const;
  // Tokens that models have learned to see before and behind a whole text.
  virtual std::span<const int32_t> before_text() const { return {}; }
  virtual std::span<const int32_t> behind_text() const { return {}; }
  // Whether the tokens of a text are those of its parts, wherever it is cut between
  // characters.
  virtual bool divides() const { return true; }
  // Whether a token is a mark for the model, such as the end of a text, and no text.
  // REQUIRES: 0 <= id < size().
  virtual bool special(int32_t /*id*/) const { return false; }
  // The bytes of one token. REQUIRES: 0 <= id < size().
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  // What it can encode, briefly: "28 characters: newline space a-z".
  virtual std::string Describe() const = 0;
  // tokenizer.json: the outer schema of Hugging Face, model.type Char or Byte.
  virtual std::string ToJson() const = 0;

  // The text of ids of a whole text, with special tokens or without; what is not UTF-8
  // becomes U+FFFD. Other ids than tokens' are left out.
  virtual std::string DecodeText(std::span<const int32_t> ids, bool special) const;
  // The bytes of `ids`; INVALID_ARGUMENT for an id out of range.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;
};

// One id per Unicode code point of `text`, sorted by code point. INVALID_ARGUMENT when
// `text` is empty or not UTF-8.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(std::string_view text);

// Id i is the i-th code point of `characters`. INVALID_ARGUMENT when it is empty, not
// UTF-8, or has a code point twice.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeOrderedCharTokenizer(
    std::string_view characters);

// 256 ids, one per byte.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// From tokenizer.json, which is hostile input: duplicate or missing ids, entries that
// are not one character, unknown types and versions are INVALID_ARGUMENT. `vocab`: see
// MakeBpeTokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(std::string_view json,
                                                          int64_t vocab = 0);

}  // namespace mnemon
