// SPDX-License-Identifier: MIT
// Arbitrary bytes as text in HTML and SVG.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mnemon {

// Escapes `text` for elements and for attributes in double quotes. The result is valid
// UTF-8: invalid bytes, and control characters other than tab and line feed, become
// U+FFFD.
std::string EscapeMarkup(std::string_view text);

// Shortens `text` to `most` characters, including an ellipsis for what is cut. An
// invalid byte counts as a character. REQUIRES: most >= 1.
std::string Shortened(std::string_view text, size_t most);

// The number of characters of `text`, counted in the same way.
size_t CountCharacters(std::string_view text);

}  // namespace mnemon
