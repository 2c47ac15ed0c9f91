// SPDX-License-Identifier: MIT
// A text as a file of tokens, with their tokenizer, that is read where it lies: for
// texts beyond memory. The format is in docs/token_file_format.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "model/text/tokenizer.h"
#include "train/data/token_file_header.h"
#include "train/data/token_view.h"

namespace mnemon {

// Constant after construction; safe for concurrent use.
class TokenFile {
 public:
  // `path` may be a link. Reads the header and checks it, and the length of the file;
  // tokens are checked by those who read them. Errors name the file: INVALID_ARGUMENT
  // where it is none, or of another version, DATA_LOSS where it is damaged, else those
  // of MappedFile.
  static absl::StatusOr<std::shared_ptr<const TokenFile>> Open(const std::string& path);

  const Tokenizer& tokenizer() const { return *parsed_.header.tokenizer; }
  // Of the content, 64 hexadecimal digits, as the header has it.
  const std::string& sha256() const { return parsed_.header.sha256; }
  // Shows this file.
  TokenView tokens() const {
    return {parsed_.tokens, parsed_.header.width, tokenizer().size(), file_.path()};
  }

 private:
  TokenFile(MappedFile file, ParsedTokenFile parsed)
      : file_(std::move(file)), parsed_(std::move(parsed)) {}

  const MappedFile file_;
  const ParsedTokenFile parsed_;
};

// Whether a file that begins with `bytes` is meant as one.
bool BeginsTokenFile(std::string_view bytes);
// Whether the file at `path` can be read and begins so.
bool IsTokenFile(const std::string& path);

}  // namespace mnemon
