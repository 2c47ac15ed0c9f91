// SPDX-License-Identifier: MIT
// What characters a text in UTF-8 consists of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mnemon {

// Gathered block by block, and from several threads by adding up; the result does not
// depend on how. Owned by one thread.
class TextSurvey {
 public:
  TextSurvey();

  // Nullopt, or the first byte of `block` where it is not UTF-8; then what stands
  // before counts.
  std::optional<int64_t> Add(std::string_view block);
  void Add(const TextSurvey& other);

  int64_t characters() const { return characters_; }
  // Each that occurs, sorted by code point.
  std::vector<char32_t> Alphabet() const;

 private:
  void Mark(char32_t character) {
    seen_[character / 64] |= uint64_t{1} << (character % 64);
  }

  std::vector<uint64_t> seen_;  // a bit for each code point
  int64_t characters_ = 0;
};

}  // namespace mnemon
