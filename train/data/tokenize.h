// SPDX-License-Identifier: MIT
// Makes a token file from texts of any size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct TokenizeOptions {
  std::vector<std::string> texts;  // files, concatenated
  std::string out;
  // "char": all characters of the texts; "byte"; else a path as in OpenTokenizer.
  std::string tokenizer = "char";
  // Treatment of characters that a given tokenizer of characters lacks. The file gets
  // the given tokenizer, whose own setting stays.
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
  int threads = 1;
  int64_t block_bytes = int64_t{1} << 18;  // at least 8
  // Called now and then with the bytes read so far and in total.
  std::function<void(int64_t done, int64_t bytes)> progress;
};

struct TokenizeResult {
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t text_bytes = 0;
  int64_t tokens = 0;
  int64_t file_bytes = 0;
};

// Reads the texts twice, first for the characters, the number of tokens and the hash.
// Writes the file through a DurableFile: whole or not at all. Its bytes do not depend
// on `threads` and `block_bytes`; memory use depends on these and the tokenizer only.
// Errors name the file: INVALID_ARGUMENT, with the byte, for text that is not UTF-8 or
// not known to the tokenizer, and if no character is known; DATA_LOSS if a text changes
// meanwhile; those of DurableFile.
absl::StatusOr<TokenizeResult> TokenizeTexts(const TokenizeOptions& options);

}  // namespace mnemon
