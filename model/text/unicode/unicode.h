// SPDX-License-Identifier: MIT
// Classes and canonical forms of characters as PyPI's `tokenizers` knows them, so that
// tokenizers made for it cut the same texts at the same places. Pure, for any thread.
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
  kNumeric,      // of the step Digits
  kPunctuation,  // of the step Punctuation
  kWhite,        // of the steps WhitespaceSplit and Strip
  kWordPart,     // what a token that is a single word may not stand beside
  kAccent,       // what the step StripAccents takes away
};

// In ascending order, none next to another.
std::span<const unicode::CodeRange> RangesOf(CharacterClass of);
bool IsIn(CharacterClass of, char32_t character);

// Forms of normalisation (the Unicode standard, annex 15): composed or decomposed,
// canonical or compatible.
enum class NormalForm { kC, kD, kKC, kKD };
// Of valid UTF-8.
std::string Normalised(NormalForm form, std::string_view text);
// Each character of valid UTF-8 in lower case.
std::string LowerCase(std::string_view text);

}  // namespace mnemon
