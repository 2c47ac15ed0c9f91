// SPDX-License-Identifier: MIT
// The header of a token file as bytes: see docs/token_file_format.md. Accesses no file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "train/data/token_view.h"

namespace mnemon {

// Not the beginning of a text in UTF-8.
inline constexpr std::string_view kTokenFileMagic = "\x93MNTOK\r\n";

struct TokenFileHeader {
  TokenWidth width = TokenWidth::kOne;
  int64_t count = 0;   // of tokens
  std::string sha256;  // of the content, 64 hexadecimal digits
  std::unique_ptr<Tokenizer> tokenizer;
};

// The bytes before the first token, a multiple of 64.
std::string FormatTokenFileHeader(const TokenFileHeader& header);

struct ParsedTokenFile {
  TokenFileHeader header;
  std::string_view tokens;  // count * width bytes of those that were parsed
};

// Parses the bytes of a whole file, of which it reads the header but not the tokens.
// The input may be hostile. INVALID_ARGUMENT if it is not a token file of this version,
// DATA_LOSS if it is a damaged one.
absl::StatusOr<ParsedTokenFile> ParseTokenFile(std::string_view bytes);

}  // namespace mnemon
