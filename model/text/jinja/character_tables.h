// SPDX-License-Identifier: MIT
// Upper and lower case of the characters beyond ASCII, and which of them Python's
// repr() escapes: see scripts/character-tables.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mnemon::jinja {

// Each `step`th character from `first` to `last` becomes the one at `distance`.
struct CaseRun {
  char32_t first, last;
  int step;
  int32_t distance;
};
// A character that becomes several.
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
