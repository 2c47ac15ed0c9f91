// SPDX-License-Identifier: MIT
#include "model/text/unicode/unicode.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace mnemon {
namespace {

using unicode::CodeRange;

// Syllables of Hangul are made by arithmetic (the Unicode standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161,
                   kTrails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr char32_t kOfLead = kVowelCount * kTrailCount;

struct Mark {
  char32_t character;
  uint8_t rank;  // 0: none, it is not reordered
};

uint8_t RankOf(char32_t character) {
  const auto* const end = unicode::kCombining + unicode::kCombiningCount;
  const auto* const at =
      std::upper_bound(unicode::kCombining, end, character,
                       [](char32_t c, const auto& range) { return c < range.first; });
  if (at == unicode::kCombining || character > at[-1].last) return 0;
  return at[-1].rank;
}

// Entry of a table for a character; empty if there is none.
std::span<const char32_t> ExpansionOf(std::span<const unicode::Expansion> table,
                                      char32_t character) {
  const auto at =
      std::ranges::lower_bound(table, character, {}, &unicode::Expansion::character);
  if (at == table.end() || at->character != character) return {};
  return {unicode::kParts + at->first, at->count};
}

void AppendDecomposed(char32_t character, bool compatible, std::vector<Mark>& to) {
  if (character >= kSyllables && character < kSyllables + kLeadCount * kOfLead) {
    const char32_t index = character - kSyllables;
    to.push_back({kLeads + index / kOfLead, 0});
    to.push_back({kVowels + index % kOfLead / kTrailCount, 0});
    if (index % kTrailCount > 0) to.push_back({kTrails + index % kTrailCount, 0});
    return;
  }
  std::span<const char32_t> parts;
  if (compatible) {
    parts = ExpansionOf({unicode::kCompatible, unicode::kCompatibleCount}, character);
  }
  if (parts.empty()) {
    parts =
        ExpansionOf({unicode::kDecomposition, unicode::kDecompositionCount}, character);
  }
  if (parts.empty()) parts = {&character, 1};
  for (const char32_t part : parts) to.push_back({part, RankOf(part)});
}

// 0: none.
char32_t Composed(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels &&
      second < kVowels + kVowelCount) {
    return kSyllables + (first - kLeads) * kOfLead + (second - kVowels) * kTrailCount;
  }
  if (first >= kSyllables && first < kSyllables + kLeadCount * kOfLead &&
      (first - kSyllables) % kTrailCount == 0 && second > kTrails &&
      second < kTrails + kTrailCount) {
    return first + (second - kTrails);
  }
  const auto* const end = unicode::kCompositions + unicode::kCompositionCount;
  const auto* const at =
      std::lower_bound(unicode::kCompositions, end, std::pair(first, second),
                       [](const auto& entry, const auto& pair) {
                         return std::pair(entry.first, entry.second) < pair;
                       });
  return at != end && at->first == first && at->second == second ? at->composed : 0;
}

void Order(std::vector<Mark>& all) {
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin + 1;
    if (all[begin].rank == 0) {
      begin = end;
      continue;
    }
    while (end < all.size() && all[end].rank != 0) ++end;
    std::stable_sort(all.begin() + static_cast<int64_t>(begin),
                     all.begin() + static_cast<int64_t>(end),
                     [](const Mark& a, const Mark& b) { return a.rank < b.rank; });
    begin = end;
  }
}

void Compose(std::vector<Mark>& all) {
  size_t kept = 0;
  std::optional<size_t> starter;
  uint8_t before = 0;  // rank of the last character kept after the starter
  for (size_t i = 0; i < all.size(); ++i) {
    const Mark mark = all[i];
    const bool next = starter && *starter + 1 == kept;
    const bool blocked = !next && before >= mark.rank;
    if (starter && !blocked) {
      if (const char32_t one = Composed(all[*starter].character, mark.character)) {
        all[*starter].character = one;
        continue;
      }
    }
    if (mark.rank == 0) starter = kept;
    before = mark.rank;
    all[kept++] = mark;
  }
  all.resize(kept);
}

}  // namespace

std::span<const CodeRange> RangesOf(CharacterClass of) {
  switch (of) {
    case CharacterClass::kLetter:
      return {unicode::kLetter, unicode::kLetterCount};
    case CharacterClass::kNumber:
      return {unicode::kNumber, unicode::kNumberCount};
    case CharacterClass::kMark:
      return {unicode::kMark, unicode::kMarkCount};
    case CharacterClass::kSpace:
      return {unicode::kSpace, unicode::kSpaceCount};
    case CharacterClass::kWord:
      return {unicode::kWord, unicode::kWordCount};
    case CharacterClass::kDigit:
      return {unicode::kDigit, unicode::kDigitCount};
    case CharacterClass::kNumeric:
      return {unicode::kNumeric, unicode::kNumericCount};
    case CharacterClass::kPunctuation:
      return {unicode::kPunctuation, unicode::kPunctuationCount};
    case CharacterClass::kWhite:
      return {unicode::kWhite, unicode::kWhiteCount};
    case CharacterClass::kWordPart:
      return {unicode::kWordPart, unicode::kWordPartCount};
    case CharacterClass::kAccent:
      return {unicode::kAccent, unicode::kAccentCount};
  }
  return {};
}

bool IsIn(CharacterClass of, char32_t character) {
  const std::span<const CodeRange> ranges = RangesOf(of);
  const auto at = std::ranges::upper_bound(ranges, character, {}, &CodeRange::first);
  return at != ranges.begin() && character <= at[-1].last;
}

std::string Normalised(NormalForm form, std::string_view text) {
  const auto ascii = [&](size_t at) {
    return static_cast<unsigned char>(text[at]) < 0x80;
  };
  const bool compatible = form == NormalForm::kKC || form == NormalForm::kKD;
  const bool composed = form == NormalForm::kC || form == NormalForm::kKC;
  std::string out;
  out.reserve(text.size());
  std::vector<Mark> all;
  for (size_t at = 0; at < text.size();) {
    // ASCII is not reordered and composes with no character before it: a changed
    // stretch begins with the last ASCII character before others, and ends before the
    // next.
    const size_t begin = at;
    while (at < text.size() && ascii(at)) ++at;
    if (begin < at && at < text.size()) --at;
    out += text.substr(begin, at - begin);
    all.clear();
    while (at < text.size() && (all.empty() || !ascii(at))) {
      char32_t character = 0;
      if (!NextCodePoint(text, at, character)) return std::string(text);
      AppendDecomposed(character, compatible, all);
    }
    Order(all);
    if (composed) Compose(all);
    for (const Mark& mark : all) AppendUtf8(mark.character, out);
  }
  return out;
}

std::string LowerCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    char32_t character = 0;
    if (!NextCodePoint(text, at, character)) break;
    const auto lower = ExpansionOf({unicode::kLower, unicode::kLowerCount}, character);
    if (lower.empty()) AppendUtf8(character, out);
    for (const char32_t part : lower) AppendUtf8(part, out);
  }
  return out;
}

}  // namespace mnemon
