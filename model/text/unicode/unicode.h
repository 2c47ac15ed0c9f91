// SPDX-License-Identifier: MIT
// Character classes and canonical forms as in PyPI's `tokenizers`, so that tokenizers
// made for it cut the same texts at the same places. Pure functions, for any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/text/unicode/unicode_tables.h"

namespace mnemon {

enum class CharacterClass {
  kLetter,       // \p{L}
  kNumber,       // \p{N}
  kMark,         // \p{M}
  kSpace,        // \s
  kWord,         // \w
  kDigit,        // \d
  kNumeric,      // step Digits
  kPunctuation,  // step Punctuation
  kWhite,        // steps WhitespaceSplit and Strip
  kWordPart,     // must not be adjacent to a single-word token
  kAccent,       // removed by the step StripAccents
};

// Ascending, none adjacent to another.
std::span<const unicode::CodeRange> RangesOf(CharacterClass of);
bool IsIn(CharacterClass of, char32_t character);

// Forms of normalisation (the Unicode standard, annex 15): composed or decomposed,
// canonical or compatible.
enum class NormalForm { kC, kD, kKC, kKD };
// REQUIRES: valid UTF-8.
std::string Normalised(NormalForm form, std::string_view text);
// Lower case of each character of valid UTF-8.
std::string LowerCase(std::string_view text);

}  // namespace mnemon
