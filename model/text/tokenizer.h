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

// Treatment of characters that the vocabulary lacks.
enum class UnknownCharacters { kAsModel, kRefuse, kSkip, kReplace };
inline constexpr std::array<std::string_view, 4> kUnknownCharactersNames = {
    "as_model", "refuse", "skip", "replace"};
inline std::string_view Name(UnknownCharacters value) {
  return kUnknownCharactersNames[static_cast<size_t>(value)];
}

// Immutable after construction; safe for concurrent use.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Number of ids: 0 .. size()-1.
  virtual int32_t size() const = 0;
  // INVALID_ARGUMENT, reason UNKNOWN_CHARACTER, names the character, its byte offset
  // and Describe(). Character tokenizers refuse text that is not UTF-8.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const = 0;
  // Like Encode, with another treatment of characters that the vocabulary lacks;
  // ignored by tokenizers that can encode every text.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeWith(
      std::string_view text, UnknownCharacters /*unknown*/) const {
    return Encode(text);
  }
  // Treatment in Encode: kRefuse, kSkip or kReplace; kAsModel if the tokenizer can
  // encode every text.
  virtual UnknownCharacters unknown_characters() const {
    return UnknownCharacters::kAsModel;
  }
  // Encodes a whole text, with the tokens before and after it.
  absl::StatusOr<std::vector<int32_t>> EncodeWhole(std::string_view text) const;
  // Tokens that models have learned to see before and after a whole text.
  virtual std::span<const int32_t> before_text() const { return {}; }
  virtual std::span<const int32_t> after_text() const { return {}; }
  // Whether encoding the parts of a text, cut between any characters, gives the tokens
  // of the whole.
  virtual bool divides() const { return true; }
  // Whether a token is a control token, such as the end of a text, rather than text.
  // REQUIRES: 0 <= id < size().
  virtual bool special(int32_t /*id*/) const { return false; }
  // The bytes of one token. REQUIRES: 0 <= id < size().
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  // Short description of what it can encode: "28 characters: newline space a-z".
  virtual std::string Describe() const = 0;
  // tokenizer.json in the outer schema of Hugging Face, model.type Char or Byte.
  virtual std::string ToJson() const = 0;

  // Text of the ids of a whole text, with or without special tokens. Invalid UTF-8
  // becomes U+FFFD. Ids without a token are skipped.
  virtual std::string DecodeText(std::span<const int32_t> ids, bool special) const;
  // The bytes of `ids`; INVALID_ARGUMENT for an id out of range.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;
};

// One id per Unicode code point of `text`, sorted by code point. INVALID_ARGUMENT if
// `text` is empty or not UTF-8.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(std::string_view text);

// Id i is the i-th code point of `characters`. INVALID_ARGUMENT if it is empty, not
// UTF-8, or has a code point twice.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeOrderedCharTokenizer(
    std::string_view characters);

// 256 ids, one per byte.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// Parses tokenizer.json, which is untrusted: INVALID_ARGUMENT for duplicate or missing
// ids, entries that are not one character, unknown types and versions. `vocab`: see
// MakeBpeTokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(std::string_view json,
                                                          int64_t vocab = 0);

}  // namespace mnemon
