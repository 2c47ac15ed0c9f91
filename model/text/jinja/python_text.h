// SPDX-License-Identifier: MIT
// Operations of Python's str on UTF-8. Lengths and positions are in code points where
// stated. REQUIRES: valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon::jinja {

int64_t CodePoints(std::string_view text);
// Bytes of the code point at byte `at`. REQUIRES: at < text.size().
size_t CodePointBytes(std::string_view text, size_t at);
// Offset in bytes of code point `count`; the end if there are fewer.
size_t ByteOf(std::string_view text, int64_t count);
char32_t CodePointAt(std::string_view text, size_t at);

// Offset of the first `wanted` from byte `from` on; npos if there is none. Linear time.
size_t Find(std::string_view text, std::string_view wanted, size_t from = 0);

// Like str.isspace().
bool IsSpace(char32_t character);
// Bytes of white space at byte `at`; 0 if there is none.
size_t SpaceBytes(std::string_view text, size_t at);

enum class Side { kLeft, kRight, kBoth };
// Removes characters of `chars`, or white space, from the ends.
std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> chars = std::nullopt);

// Like str.split: at white space, or at a `separator`, which must not be empty; at most
// `most` cuts unless negative; from the right for rsplit.
std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    int64_t most, bool from_right);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

// Full Unicode mapping, including capital sigma at the end of a word. Titlecase is
// uppercase except for the Latin digraphs and Georgian.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);
// Like the method, not the filter of Jinja.
std::string TitleCase(std::string_view text);
// Whether there is a cased letter, and none of the other case.
bool IsUpperText(std::string_view text);
bool IsLowerText(std::string_view text);

// Like repr() of a str.
std::string QuotedAsPython(std::string_view text);
// Like repr() of a float.
std::string FloatText(double number);

}  // namespace mnemon::jinja
