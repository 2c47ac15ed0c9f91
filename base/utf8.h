// SPDX-License-Identifier: MIT
// Decoder of possibly ill-formed UTF-8, and an encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mnemon {

// Reads one code point at `offset` of `text` and advances `offset` past it. Returns
// false and moves nothing if the bytes are not well-formed UTF-8 (including overlong
// forms, surrogates and values above U+10FFFF).
bool NextCodePoint(std::string_view text, size_t& offset, char32_t& code_point);

// The piece at an offset of a text.
struct Utf8Piece {
  enum Kind {
    kCodePoint,   // a well-formed character
    kIncomplete,  // the text ends in a proper prefix of one
    kIllFormed,   // bytes that can never become one: a maximal subpart, as the Unicode
                  // standard (section 3.9) replaces them by one U+FFFD
  };
  Kind kind;
  size_t length;            // bytes, at least 1
  char32_t code_point = 0;  // for kCodePoint
};

// REQUIRES: offset < text.size().
Utf8Piece NextUtf8Piece(std::string_view text, size_t offset);

// REQUIRES: a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& out);

// Length of the longest well-formed prefix of `text`.
size_t ValidUtf8Prefix(std::string_view text);
bool IsValidUtf8(std::string_view text);

}  // namespace mnemon
