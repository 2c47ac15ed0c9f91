// SPDX-License-Identifier: MIT
// Texts of any size to a token file.
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
  std::vector<std::string> texts;  // one behind the other
  std::string out;
  // "char": of all characters of the text; "byte"; else as of OpenTokenizer.
  std::string tokenizer = "char";
  // What becomes of characters that a given tokenizer of characters lacks. The file's
  // tokenizer is that one.
  UnknownCharacters unknown = UnknownCharacters::kAsModel;
  int threads = 1;
  int64_t block_bytes = int64_t{1} << 18;  // at least 8
  // Called now and then with the bytes read so far; the whole is `bytes`.
  std::function<void(int64_t done, int64_t bytes)> progress;
};

struct TokenizeResult {
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t text_bytes = 0;
  int64_t tokens = 0;
  int64_t file_bytes = 0;
};

// Reads the texts twice, first for the characters, the number of tokens and the hash,
// and writes the file in the way of DurableFile: whole or not at all. Its bytes do not
// depend on `threads` and `block_bytes`; memory, beside the tokenizer, only on these.
// Errors name the file: INVALID_ARGUMENT, with the byte, for what is not UTF-8 or not
// known to the tokenizer, and where no character is known; DATA_LOSS where a text
// changes meanwhile; those of DurableFile.
absl::StatusOr<TokenizeResult> TokenizeTexts(const TokenizeOptions& options);

}  // namespace mnemon
