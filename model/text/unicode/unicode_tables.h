// SPDX-License-Identifier: MIT
// The tables of unicode.h: see scripts/unicode-tables.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mnemon::unicode {

// All code points from the first to the last.
struct CodeRange {
  char32_t first, last;
};
// Expansion of a character: `count` entries of kParts from `first` on.
struct Expansion {
  char32_t character;
  uint16_t first, count;
};
// Two characters composed into one.
struct Composition {
  char32_t first, second, composed;
};
// Marks that are ordered after a character by their rank.
struct Combining {
  char32_t first, last;
  uint8_t rank;
};

extern const CodeRange kLetter[], kNumber[], kMark[], kSpace[], kWord[], kDigit[],
    kNumeric[], kPunctuation[], kWhite[], kAccent[], kWordPart[];
extern const size_t kLetterCount, kNumberCount, kMarkCount, kSpaceCount, kWordCount,
    kDigitCount, kNumericCount, kPunctuationCount, kWhiteCount, kAccentCount,
    kWordPartCount;

extern const char32_t kParts[];
// Canonical decomposition, compatibility decomposition if different, and lower case.
extern const Expansion kDecomposition[], kCompatible[], kLower[];
extern const size_t kDecompositionCount, kCompatibleCount, kLowerCount;
extern const Composition kCompositions[];
extern const Combining kCombining[];
extern const size_t kCompositionCount, kCombiningCount;

}  // namespace mnemon::unicode
