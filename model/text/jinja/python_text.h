// SPDX-License-Identifier: MIT
// What Python's str does, on UTF-8. Lengths and places are code points where they say
// so. REQUIRES: valid UTF-8.
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
// The byte at which code point `count` begins; the end when there are fewer.
size_t ByteOf(std::string_view text, int64_t count);
char32_t CodePointAt(std::string_view text, size_t at);

// The byte at which `wanted` first stands, from byte `from` on; npos. In linear time.
size_t Find(std::string_view text, std::string_view wanted, size_t from = 0);

// As str.isspace().
bool IsSpace(char32_t character);
// Bytes of white space at byte `at`; 0 where there is none.
size_t SpaceBytes(std::string_view text, size_t at);

enum class Side { kLeft, kRight, kBoth };
// Without characters of `chars`, or white space, at its ends.
std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> chars = std::nullopt);

// As str.split: at white space, or at a `separator`, which is not empty; at most `most`
// cuts unless it is negative; counted from the right for rsplit.
std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    int64_t most, bool from_right);
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

// All of Unicode; capital sigma at the end of a word included. Titlecase is uppercase
// but for the Latin digraphs and Georgian.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);
// As the method, not as the filter of Jinja.
std::string TitleCase(std::string_view text);
// Whether there is a letter with case, and none of the other case.
bool IsUpperText(std::string_view text);
bool IsLowerText(std::string_view text);

// As repr() of a str.
std::string QuotedAsPython(std::string_view text);
// As repr() of a float.
std::string FloatText(double number);

}  // namespace mnemon::jinja
