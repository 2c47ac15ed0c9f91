// SPDX-License-Identifier: MIT
#include "model/text/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "model/text/jinja/character_tables.h"
#include "model/text/unicode/unicode.h"

namespace mnemon::jinja {

size_t CodePointBytes(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    ++end;
  }
  return end - at;
}

int64_t CodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  });
}

size_t ByteOf(std::string_view text, int64_t count) {
  size_t at = 0;
  for (; count > 0 && at < text.size(); --count) at += CodePointBytes(text, at);
  return at;
}

char32_t CodePointAt(std::string_view text, size_t at) {
  return NextUtf8Piece(text, at).code_point;
}

size_t Find(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found =
      memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t SpaceBytes(std::string_view text, size_t at) {
  if (at >= text.size() || !IsSpace(CodePointAt(text, at))) return 0;
  return CodePointBytes(text, at);
}

namespace {

size_t LastCodePoint(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> chars) {
  absl::flat_hash_set<char32_t> set;
  for (size_t at = 0; chars.has_value() && at < chars->size();
       at += CodePointBytes(*chars, at)) {
    set.insert(CodePointAt(*chars, at));
  }
  const auto goes = [&](char32_t c) {
    return chars.has_value() ? set.contains(c) : IsSpace(c);
  };
  while (side != Side::kRight && !text.empty()) {
    const size_t bytes = CodePointBytes(text, 0);
    if (!goes(CodePointAt(text, 0))) break;
    text.remove_prefix(bytes);
  }
  while (side != Side::kLeft && !text.empty()) {
    const size_t last = LastCodePoint(text);
    if (!goes(CodePointAt(text, last))) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

namespace {

std::vector<std::string_view> SplitAtSpace(std::string_view text, int64_t most,
                                           bool from_right) {
  std::vector<std::string_view> parts;
  const Side side = from_right ? Side::kRight : Side::kLeft;
  for (text = Strip(text, side); !text.empty(); text = Strip(text, side)) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    size_t cut = from_right ? text.size() : 0;
    if (from_right) {
      while (cut > 0) {
        const size_t last = LastCodePoint(text.substr(0, cut));
        if (IsSpace(CodePointAt(text, last))) break;
        cut = last;
      }
      parts.push_back(text.substr(cut));
      text = text.substr(0, cut);
    } else {
      while (cut < text.size() && SpaceBytes(text, cut) == 0) {
        cut += CodePointBytes(text, cut);
      }
      parts.push_back(text.substr(0, cut));
      text = text.substr(cut);
    }
  }
  return parts;
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator,
                                    int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  if (!separator.has_value()) {
    parts = SplitAtSpace(text, most, from_right);
  } else {
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      const size_t cut = from_right ? text.rfind(*separator) : Find(text, *separator);
      if (cut == std::string_view::npos) break;
      const size_t after = cut + separator->size();
      parts.push_back(from_right ? text.substr(after) : text.substr(0, cut));
      text = from_right ? text.substr(0, cut) : text.substr(after);
    }
    parts.push_back(text);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = CodePointAt(text, at);
    const size_t end = at;
    at += CodePointBytes(text, at);
    const bool ends = (c >= 0xa && c <= 0xd) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

namespace {

char32_t Mapped(const CaseRun* runs, size_t count, char32_t c) {
  const CaseRun* after =
      std::upper_bound(runs, runs + count, c,
                       [](char32_t a, const CaseRun& run) { return a < run.first; });
  if (after == runs) return c;
  const CaseRun& run = after[-1];
  if (c > run.last || (c - run.first) % static_cast<char32_t>(run.step) != 0) return c;
  return static_cast<char32_t>(static_cast<int32_t>(c) + run.distance);
}

// Null unless the uppercase of `c` has several characters.
const char32_t* LongUpperOf(char32_t c) {
  const LongUpper* const end = kLongUpper + kLongUpperCount;
  const LongUpper* found = std::lower_bound(
      kLongUpper, end, c,
      [](const LongUpper& entry, char32_t wanted) { return entry.character < wanted; });
  return found == end || found->character != c ? nullptr : found->upper;
}

char32_t OneUpper(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  return Mapped(kUpper, kUpperCount, c);
}

char32_t OneLower(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  return Mapped(kLower, kLowerCount, c);
}

bool IsUpperCharacter(char32_t c) { return OneLower(c) != c || c == 0x130; }

bool IsLowerCharacter(char32_t c) {
  return !IsUpperCharacter(c) && (OneUpper(c) != c || LongUpperOf(c) != nullptr ||
                                  c == 0xaa || c == 0xba || c == 0x138 || c == 0x149);
}

bool IsCased(char32_t c) { return IsUpperCharacter(c) || IsLowerCharacter(c); }

bool IsCaseIgnorable(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xa8 ||
         c == 0xad || c == 0xaf || c == 0xb4 || c == 0xb7 || c == 0xb8 || c == 0x2019 ||
         IsIn(CharacterClass::kMark, c);
}

void AppendUpper(char32_t c, std::string& out) {
  if (const char32_t* several = LongUpperOf(c)) {
    for (; *several != 0; ++several) AppendUtf8(*several, out);
  } else {
    AppendUtf8(OneUpper(c), out);
  }
}

// Whether the capital sigma at byte `at` ends a word.
bool IsFinalSigma(std::string_view text, size_t at) {
  size_t before = at;
  bool letter_before = false;
  while (before > 0 && !letter_before) {
    before = LastCodePoint(text.substr(0, before));
    const char32_t c = CodePointAt(text, before);
    if (IsCaseIgnorable(c)) continue;
    if (!IsCased(c)) break;
    letter_before = true;
  }
  if (!letter_before) return false;
  for (size_t i = at + 2; i < text.size(); i += CodePointBytes(text, i)) {
    const char32_t c = CodePointAt(text, i);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

void AppendLower(std::string_view text, size_t at, std::string& out) {
  const char32_t c = CodePointAt(text, at);
  if (c == 0x3a3) {
    AppendUtf8(IsFinalSigma(text, at) ? 0x3c2 : 0x3c3, out);
  } else if (c == 0x130) {
    out += "i\xcc\x87";
  } else {
    AppendUtf8(OneLower(c), out);
  }
}

void AppendTitle(char32_t c, std::string& out) {
  if (c >= 0x10d0 && c <= 0x10ff) {
    AppendUtf8(c, out);
  } else if (c >= 0x1c4 && c <= 0x1cc) {
    AppendUtf8(0x1c5 + (c - 0x1c4) / 3 * 3, out);
  } else if (c >= 0x1f1 && c <= 0x1f3) {
    AppendUtf8(0x1f2, out);
  } else if (const char32_t* several = LongUpperOf(c);
             several != nullptr && c != 0x149) {
    AppendUtf8(several[0], out);
    for (++several; *several != 0; ++several) AppendUtf8(OneLower(*several), out);
  } else {
    AppendUpper(c, out);
  }
}

}  // namespace

std::string Upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    AppendUpper(CodePointAt(text, at), out);
  }
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    AppendLower(text, at, out);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    if (at == 0) {
      AppendTitle(CodePointAt(text, at), out);
    } else {
      AppendLower(text, at, out);
    }
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    const char32_t c = CodePointAt(text, at);
    if (IsUpperCharacter(c)) {
      AppendLower(text, at, out);
    } else {
      AppendUpper(c, out);
    }
  }
  return out;
}

std::string TitleCase(std::string_view text) {
  std::string out;
  bool within = false;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    const char32_t c = CodePointAt(text, at);
    if (within) {
      AppendLower(text, at, out);
    } else {
      AppendTitle(c, out);
    }
    within = IsCased(c);
  }
  return out;
}

namespace {

bool AllOfCase(std::string_view text, bool (*wanted)(char32_t),
               bool (*other)(char32_t)) {
  bool any = false;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    const char32_t c = CodePointAt(text, at);
    if (other(c)) return false;
    any = any || wanted(c);
  }
  return any;
}

bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7f;
  const CharacterRange* const end = kHidden + kHiddenCount;
  const CharacterRange* const after = std::upper_bound(
      kHidden, end, c,
      [](char32_t a, const CharacterRange& range) { return a < range.first; });
  return after == kHidden || c > after[-1].last;
}

}  // namespace

bool IsUpperText(std::string_view text) {
  return AllOfCase(text, IsUpperCharacter, IsLowerCharacter);
}

bool IsLowerText(std::string_view text) {
  return AllOfCase(text, IsLowerCharacter, IsUpperCharacter);
}

std::string QuotedAsPython(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    const char32_t c = CodePointAt(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (IsPrintable(c)) {
      out += text.substr(at, CodePointBytes(text, at));
    } else {
      char escaped[16];
      const char* const form = c < 0x100     ? "\\x%02x"
                               : c < 0x10000 ? "\\u%04x"
                                             : "\\U%08x";
      std::snprintf(escaped, sizeof escaped, form, static_cast<unsigned>(c));
      out += escaped;
    }
  }
  return out + quote;
}

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, number,
                                 std::chars_format::scientific);
  const std::string text(digits, end.ptr);
  const size_t mark = text.find('e');
  const int exponent = std::stoi(text.substr(mark + 1));
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed =
      std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed);
  std::string plain(digits, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

}  // namespace mnemon::jinja
