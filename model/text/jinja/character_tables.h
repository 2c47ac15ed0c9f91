// SPDX-License-Identifier: MIT
// Case mappings of characters beyond ASCII, and the characters that Python's repr()
// escapes; see scripts/character-tables.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mnemon::jinja {

// Maps every `step`th character from `first` to `last` to the one at `distance`.
struct CaseRun {
  char32_t first, last;
  int step;
  int32_t distance;
};
// A character that maps to several.
struct LongUpper {
  char32_t character;
  const char32_t* upper;
};

struct CharacterRange {
  char32_t first, last;
};

// In ascending order.
extern const CaseRun kUpper[], kLower[];
extern const LongUpper kLongUpper[];
extern const CharacterRange kHidden[];
extern const size_t kUpperCount, kLowerCount, kLongUpperCount, kHiddenCount;

}  // namespace mnemon::jinja
