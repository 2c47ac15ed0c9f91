// SPDX-License-Identifier: MIT
// The header of a token file: docs/token_file_format.md. No more than bytes and
// numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "train/data/token_view.h"

namespace mnemon {

// No beginning of UTF-8.
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
  std::string_view tokens;  // of the bytes that were parsed: count * width of them
};

// From all bytes of a file, of which it reads the header alone. It is hostile input:
// INVALID_ARGUMENT where they are no token file of this version, DATA_LOSS where they
// were one. Tokens are not looked at.
absl::StatusOr<ParsedTokenFile> ParseTokenFile(std::string_view bytes);

}  // namespace mnemon
