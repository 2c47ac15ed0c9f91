// SPDX-License-Identifier: MIT
// The added_tokens of a tokenizer.json: texts that are tokens wherever they occur,
// found before all other tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace mnemon {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;          // not adjacent to a letter, digit or _
  bool left = false, right = false;  // includes white space on that side
  bool normalized = false;           // searched in the normalised text
  bool special = false;              // not part of the text
};

// Finds tokens, the leftmost first and the longest of those. Immutable after
// construction; safe for concurrent use.
class AddedTokens {
 public:
  AddedTokens() : by_first_(256) {}
  void Add(std::string content, const AddedToken& token);

  bool none() const { return tokens_.empty(); }
  // Calls text(part, offset) for the text between tokens, and token(id), in order.
  void Cut(std::string_view text,
           const std::function<absl::Status(std::string_view, size_t)>& on_text,
           const std::function<void(int32_t)>& on_token, absl::Status& status) const;

 private:
  struct Wanted {
    std::string content;
    AddedToken token;
  };
  const Wanted* Match(std::string_view rest) const;

  std::vector<Wanted> tokens_;
  std::vector<std::vector<size_t>> by_first_;  // by first byte, the longest first
};

}  // namespace mnemon
