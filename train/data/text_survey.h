// SPDX-License-Identifier: MIT
// The characters that occur in a text in UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mnemon {

// Takes a text block by block; surveys of several threads can be added. The result does
// not depend on the division. Owned by one thread.
class TextSurvey {
 public:
  TextSurvey();

  // Adds the characters of `block`. Returns the offset of its first byte that is not
  // UTF-8, else nullopt; characters before that byte count.
  std::optional<int64_t> Add(std::string_view block);
  void Add(const TextSurvey& other);

  int64_t characters() const { return characters_; }
  // The characters that occur, sorted by code point.
  std::vector<char32_t> Alphabet() const;

 private:
  void Mark(char32_t character) {
    seen_[character / 64] |= uint64_t{1} << (character % 64);
  }

  std::vector<uint64_t> seen_;  // a bit for each code point
  int64_t characters_ = 0;
};

}  // namespace mnemon
