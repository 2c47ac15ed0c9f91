// SPDX-License-Identifier: MIT
// Byte pair encoding ("Neural Machine Translation of Rare Words with Subword Units",
// Sennrich et al., 2016): a piece of text starts as characters, or bytes. Neighbours
// are merged in the order of the list of merges, and from the left among equals.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"

namespace mnemon {

// Ids of a vocabulary are below this.
inline constexpr int64_t kMostTokens = int64_t{1} << 24;

// A text of at most kMost bytes as a value that is compared and hashed in one
// operation.
struct ShortText {
  static constexpr size_t kMost = 15;
  // REQUIRES: text.size() <= kMost.
  explicit ShortText(std::string_view text);
  ShortText() = default;  // empty

  bool operator==(const ShortText&) const = default;
  template <class H>
  friend H AbslHashValue(H state, const ShortText& text) {
    return H::combine(std::move(state), text.low, text.high);
  }

  uint64_t low = 0, high = 0;  // bytes, zero padding, and the length in the last byte
};

// Immutable after construction; safe for concurrent use.
class Bpe {
 public:
  // Parses "model" of a tokenizer.json, of type BPE. With `byte_level`, tokens are
  // written in 256 characters that stand for bytes (GPT-2's encoder.py).
  // INVALID_ARGUMENT names a member that is missing, wrong or not supported, an id used
  // twice, or a merge of something that is not a token.
  static absl::StatusOr<Bpe> Parse(const nlohmann::json& json, bool byte_level);

  // Appends the ids of a piece of valid UTF-8. A character without a token becomes its
  // bytes if all have tokens (`byte_fallback`), else the unknown token, else nothing.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;

  Bpe(Bpe&&) = default;
  Bpe& operator=(Bpe&&) = default;

  // Length of a first part of `piece`, valid UTF-8 and not empty, across whose end no
  // merge is possible: the ids are those of the part and those of the rest. Divides
  // long texts, which are not cut otherwise, into words.
  size_t FirstPart(std::string_view piece) const;

  // Tokens by id, as in the file; empty if an id has none.
  const std::vector<std::string>& tokens() const { return tokens_; }
  std::optional<int32_t> Find(std::string_view token) const;

 private:
  struct Merge {
    int32_t rank = std::numeric_limits<int32_t>::max(), merged = -1;  // none
  };
  Bpe() = default;
  absl::Status ReadVocab(const nlohmann::json& vocab);
  absl::Status ReadMerges(const nlohmann::json& merges);
  void NoteCharacters();
  void NoteWords();
  bool MayCut(char32_t before, char32_t after) const;
  void Begin(std::string_view piece, std::vector<int32_t>& symbols) const;
  void AddMerged(std::string_view piece, std::vector<int32_t>& ids) const;
  Merge MergeOf(int32_t left, int32_t right) const;
  // Both return the number of remaining symbols, which are at the front.
  size_t MergeFew(std::span<int32_t> symbols) const;
  size_t MergeMany(std::span<int32_t> symbols) const;

  std::vector<std::string> tokens_;
  absl::flat_hash_map<std::string_view, int32_t> ids_;  // by token; refers to tokens_
  absl::flat_hash_map<uint64_t, Merge> merges_;         // by left << 32 | right
  bool byte_level_ = false, byte_fallback_ = false, fuse_unknown_ = false,
       ignore_merges_ = false;
  std::optional<int32_t> unknown_;
  absl::flat_hash_map<char32_t, int32_t> characters_;  // characters that are tokens
  // Whether pieces are divided, and the pairs of characters across which a merge
  // exists, as first << 32 | second.
  bool cuts_ = false;
  absl::flat_hash_set<uint64_t> joined_;
  std::array<std::array<bool, 128>, 128> ascii_cuts_ = {};  // MayCut for ASCII
  absl::flat_hash_map<ShortText, int32_t> words_;  // texts that become a single token
  std::array<int32_t, 256> bytes_;                 // tokens of single bytes; -1: none
};

// The character that stands for a byte in a vocabulary in bytes, as UTF-8.
const std::string& CharacterOfByte(uint8_t byte);
// The bytes that such a token stands for; the token itself if one of its characters
// stands for none.
std::string BytesOfToken(std::string_view token);

}  // namespace mnemon
