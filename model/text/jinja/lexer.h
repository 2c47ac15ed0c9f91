// SPDX-License-Identifier: MIT
// Lexer of templates, equal to jinja2 with trim_blocks and lstrip_blocks: removes white
// space around tags and comments; raw blocks are data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon::jinja {

struct Token {
  enum Kind {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  int line;          // from 1
  std::string text;  // strings without quotes and escapes, numbers without _
};

// INVALID_ARGUMENT names the line. The last token is kEnd. REQUIRES: valid UTF-8.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// INVALID_ARGUMENT: "line N: ..."
absl::Status FaultAt(int line, std::string_view what);

}  // namespace mnemon::jinja
