// SPDX-License-Identifier: MIT
// A file with the tokens of a text and their tokenizer. It is mapped into memory, so
// that texts may be larger than that. docs/token_file_format.md defines the format.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/files/mapped_file.h"
#include "model/text/tokenizer.h"
#include "train/data/token_file_header.h"
#include "train/data/token_view.h"

namespace mnemon {

// Constant after construction; safe for concurrent use.
class TokenFile {
 public:
  // Reads and checks the header and the file's length, but not the tokens: TokenView
  // does that. `path` may be a link. Errors name the file: INVALID_ARGUMENT if it is
  // not a token file or has another version, DATA_LOSS if it is damaged, else those of
  // MappedFile.
  static absl::StatusOr<std::shared_ptr<const TokenFile>> Open(const std::string& path);

  const Tokenizer& tokenizer() const { return *parsed_.header.tokenizer; }
  // SHA-256 of the content from the header, 64 hexadecimal digits.
  const std::string& sha256() const { return parsed_.header.sha256; }
  // Refers to this file, which must outlive it.
  TokenView tokens() const {
    return {parsed_.tokens, parsed_.header.width, tokenizer().size(), file_.path()};
  }

 private:
  TokenFile(MappedFile file, ParsedTokenFile parsed)
      : file_(std::move(file)), parsed_(std::move(parsed)) {}

  const MappedFile file_;
  const ParsedTokenFile parsed_;
};

// Whether a file that begins with `bytes` has the magic number of token files.
bool BeginsTokenFile(std::string_view bytes);
// Whether the file at `path` can be read and has that magic number.
bool IsTokenFile(const std::string& path);

}  // namespace mnemon
