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
    kBare,      // what stands without quotes: a keyword, a field, a value
    kQuoted,    // `text` is what stands between the quotes, escapes resolved
    kOperator,  // = != < <= > >= :
    kOpen,
    kClose,
    kEnd,  // the last one; `text` is empty
  };
  Kind kind = Kind::kEnd;
  std::string text;
  size_t position = 1;  // of its first byte in the filter, counted from 1
};

// INVALID_ARGUMENT on the field "filter"; the position is in the message and in the
// metadata as "position".
absl::Status FilterError(size_t position, std::string_view fault);

// The words of `filter`, the end included. In quotes, " or ', a backslash stands before
// a quote or a backslash. FilterError for a quote that does not end, any other escape,
// '!' without '=', and control characters outside quotes that are no white space.
absl::StatusOr<std::vector<FilterWord>> CutFilter(std::string_view filter);

}  // namespace mnemon
