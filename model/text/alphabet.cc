// SPDX-License-Identifier: MIT
#include "model/text/alphabet.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/utf8.h"

namespace mnemon {
namespace {

constexpr size_t kMaxBytes = 200;

std::string NameOf(char32_t character) {
  if (character == '\n') return "newline";
  if (character == '\t') return "tab";
  if (character == ' ') return "space";
  const bool control = character < 0x20 || (character >= 0x7f && character <= 0xa0);
  if (control) return absl::StrFormat("U+%04X", static_cast<unsigned>(character));
  std::string text;
  AppendUtf8(character, text);
  return text;
}

// Kind of range that a character belongs to: 0 = none.
int KindOf(char32_t character) {
  if (character > 0xa0) return 4;
  const auto byte = static_cast<unsigned char>(character);
  if (character > 0x7e) return 0;
  return absl::ascii_isdigit(byte)   ? 1
         : absl::ascii_isupper(byte) ? 2
         : absl::ascii_islower(byte) ? 3
                                     : 0;
}

// End of the range that starts at `begin`.
size_t RangeEnd(const std::vector<char32_t>& characters, size_t begin) {
  const int kind = KindOf(characters[begin]);
  size_t end = begin + 1;
  while (kind != 0 && end < characters.size() &&
         characters[end] == characters[end - 1] + 1 &&
         KindOf(characters[end]) == kind) {
    ++end;
  }
  return end;
}

}  // namespace

std::string DescribeAlphabet(std::vector<char32_t> characters) {
  std::sort(characters.begin(), characters.end());
  std::string text;
  for (size_t at = 0; at < characters.size();) {
    if (text.size() > kMaxBytes) {
      return StrCat(text, " and ", characters.size() - at, " more");
    }
    size_t end = RangeEnd(characters, at);
    if (end - at < 3) end = at + 1;
    text += StrCat(at == 0 ? "" : " ", NameOf(characters[at]));
    if (end - at > 1) text += StrCat("-", NameOf(characters[end - 1]));
    at = end;
  }
  return text;
}

}  // namespace mnemon
