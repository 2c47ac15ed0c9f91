// SPDX-License-Identifier: MIT
// Text of any bytes inside HTML and SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mnemon {

// `text` for elements and for attributes in double quotes: valid UTF-8, where bytes
// that are none and control characters other than tab and line feed become U+FFFD.
std::string EscapeMarkup(std::string_view text);

// The first characters of `text`, at most `most` of them with the ellipsis that stands
// for the rest; bytes that are no UTF-8 count as one each. REQUIRES: most >= 1.
std::string Shortened(std::string_view text, size_t most);

// Characters of `text`, likewise.
size_t CountCharacters(std::string_view text);

}  // namespace mnemon
