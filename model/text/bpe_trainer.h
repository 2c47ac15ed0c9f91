// SPDX-License-Identifier: MIT
// Training of byte pair encoding ("Neural Machine Translation of Rare Words with
// Subword Units", Sennrich et al., 2016, algorithm 1) over bytes: the most frequent
// pair of neighbours becomes a token, until there are enough tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "model/text/pre_tokenizer.h"

namespace mnemon {

// Used by one thread.
class BpeTrainer {
 public:
  // `special`: tokens that are not text, each once; they get the first ids.
  // INVALID_ARGUMENT if one is empty, not UTF-8, or given twice.
  static absl::StatusOr<BpeTrainer> Create(std::vector<std::string> special);

  // Counts the pieces of `text`, valid UTF-8, cut like GPT-2's tokenizer does. Special
  // tokens in it are ordinary text. RESOURCE_EXHAUSTED for more than kMostWords
  // different pieces.
  absl::Status Add(std::string_view text);

  // A tokenizer.json with at most `vocab` tokens: the special ones, the 256 bytes, and
  // merges; fewer if no pair occurs twice. Equal texts give equal files: among pairs of
  // equal count, the one with smaller ids comes first. INVALID_ARGUMENT if `vocab` has
  // no room for the special tokens and the bytes, or is above kMostTokens.
  absl::StatusOr<std::string> Train(int64_t vocab) const;

  static constexpr size_t kMostWords = 20'000'000;

 private:
  BpeTrainer(std::vector<std::string> special, PreTokenizer pre);

  std::vector<std::string> special_;
  PreTokenizer pre_;
  absl::flat_hash_map<std::string, int64_t> counts_;  // by piece
};

}  // namespace mnemon
