// SPDX-License-Identifier: MIT
// A regular expression of a tokenizer, matched by PCRE2. Its character classes are
// those of unicode.h, independent of the library's version of Unicode.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace mnemon {

// Immutable after construction; safe for concurrent use.
class Pattern {
 public:
  struct Match {
    size_t begin = 0, end = 0;  // bytes
  };

  // INVALID_ARGUMENT if the expression is malformed or uses what is not supported:
  // properties other than \p{L}, \p{N} and \p{M}, word boundaries, back references,
  // calls.
  static absl::StatusOr<Pattern> Compile(std::string_view expression);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // The first match in valid UTF-8 that begins at or after `from`, if any.
  // RESOURCE_EXHAUSTED if it takes more steps than any sane pattern needs.
  absl::StatusOr<std::optional<Match>> Find(std::string_view text, size_t from) const;

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace mnemon
