// SPDX-License-Identifier: MIT
// A filter text cut into words, quoted texts, operators and parentheses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon {

struct FilterWord {
  enum class Kind {
    kBare,      // unquoted: a keyword, a field or a value
    kQuoted,    // `text` is the quoted text, escapes resolved
    kOperator,  // = != < <= > >= :
    kOpen,
    kClose,
    kEnd,  // the last one; `text` is empty
  };
  Kind kind = Kind::kEnd;
  std::string text;
  size_t position = 1;  // of its first byte in the filter, from 1
};

// INVALID_ARGUMENT for the field "filter". The position is in the message and in the
// metadata "position".
absl::Status FilterError(size_t position, std::string_view fault);

// The words of `filter`, including the end. Quotes are " or '; within them a backslash
// escapes a quote or a backslash. FilterError for an unterminated quote, another
// escape,
// '!' without '=', and control characters outside quotes other than white space.
absl::StatusOr<std::vector<FilterWord>> CutFilter(std::string_view filter);

}  // namespace mnemon
