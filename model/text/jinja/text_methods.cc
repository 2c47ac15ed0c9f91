// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iterator>

#include "base/status_macros.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"
#include "model/text/unicode/unicode.h"

namespace mnemon::jinja {

absl::StatusOr<Value> ListOfTexts(Runtime& runtime,
                                  const std::vector<std::string_view>& pieces) {
  std::vector<Value> items;
  for (const std::string_view piece : pieces) {
    MNEMON_ASSIGN_OR_RETURN(Value item, runtime.NewText(std::string(piece)));
    items.push_back(std::move(item));
  }
  return runtime.NewSequence(std::move(items));
}

absl::StatusOr<Value> ReplaceText(Runtime& runtime, std::string_view text,
                                  std::string_view old, std::string_view by,
                                  int64_t count) {
  std::string out;
  size_t at = 0;
  const auto add = [&](std::string_view piece) {
    out += piece;
    const auto bytes = static_cast<int64_t>(out.size());
    return bytes > kMaxTextBytes ? TooMuch("bytes of a string", kMaxTextBytes)
                                 : runtime.Spend(0);
  };
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    MNEMON_RETURN_IF_ERROR(
        runtime.Spend(1 + static_cast<int64_t>(by.size()) / kStepBytes));
    if (old.empty()) {
      MNEMON_RETURN_IF_ERROR(add(by));
      if (at == text.size()) break;
      const size_t bytes = CodePointBytes(text, at);
      MNEMON_RETURN_IF_ERROR(add(text.substr(at, bytes)));
      at += bytes;
      continue;
    }
    const size_t found = Find(text, old, at);
    if (found == std::string_view::npos) break;
    MNEMON_RETURN_IF_ERROR(add(text.substr(at, found - at)));
    MNEMON_RETURN_IF_ERROR(add(by));
    at = found + old.size();
  }
  MNEMON_RETURN_IF_ERROR(add(text.substr(at)));
  return runtime.NewText(std::move(out));
}

absl::StatusOr<Value> JoinTexts(Runtime& runtime, std::string_view between,
                                Iterator& items, bool strict) {
  std::string out;
  for (bool first = true;; first = false) {
    MNEMON_ASSIGN_OR_RETURN(const std::optional<Value> item, items.next());
    if (!item.has_value()) return runtime.NewText(std::move(out));
    if (strict && item->text() == nullptr) {
      return Fail("join takes strings, not a ", item->type());
    }
    MNEMON_ASSIGN_OR_RETURN(const std::string piece, Str(runtime, *item));
    if (!first) out += between;
    out += piece;
    MNEMON_RETURN_IF_ERROR(
        runtime.Spend(static_cast<int64_t>(between.size()) / kStepBytes));
    if (static_cast<int64_t>(out.size()) > kMaxTextBytes) {
      return TooMuch("bytes of a string", kMaxTextBytes);
    }
  }
}

absl::StatusOr<Value> PadText(Runtime& runtime, const Text& text, int64_t width,
                              std::string_view fill, int left) {
  if (CodePoints(fill) != 1) return Fail("the fill is not one character");
  const int64_t padding = std::max<int64_t>(0, width - text.length);
  // As in Python: of odd padding the left half is larger if the width is odd.
  const int64_t before =
      left == 1 ? padding / 2 + (padding & width & 1) : padding * left / 2;
  if (padding > kMaxTextBytes) return TooMuch("bytes of a string", kMaxTextBytes);
  MNEMON_RETURN_IF_ERROR(
      runtime.SpendText(static_cast<int64_t>(text.bytes.size()) +
                        padding * static_cast<int64_t>(fill.size())));
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += text.bytes;
  for (int64_t i = before; i < padding; ++i) out += fill;
  return runtime.NewText(std::move(out));
}

namespace {

absl::Status NoArguments(const Arguments& arguments) {
  return Bind(arguments, {}).status();
}

template <std::string (*kChange)(std::string_view)>
absl::StatusOr<Value> Changed(Runtime& runtime, const Text& self,
                              const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(NoArguments(arguments));
  MNEMON_RETURN_IF_ERROR(
      runtime.Spend(static_cast<int64_t>(self.bytes.size()) / kCaseStepBytes));
  return runtime.NewText(kChange(self.bytes), self.markup);
}

template <bool (*kHolds)(std::string_view)>
absl::StatusOr<Value> Holds(Runtime& runtime, const Text& self,
                            const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(NoArguments(arguments));
  MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(self.bytes.size())));
  return Value::OfBool(kHolds(self.bytes));
}

template <bool (*kHolds)(char32_t)>
bool AllCharacters(std::string_view text) {
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    if (!kHolds(CodePointAt(text, at))) return false;
  }
  return !text.empty();
}

bool IsLetter(char32_t c) { return IsIn(CharacterClass::kLetter, c); }
bool IsDecimal(char32_t c) { return IsIn(CharacterClass::kDigit, c); }
bool IsNumeric(char32_t c) { return IsIn(CharacterClass::kNumber, c); }
bool IsAlphanumeric(char32_t c) { return IsLetter(c) || IsNumeric(c); }
bool IsDigit(char32_t c) {
  // Superscripts and digits in circles.
  return IsDecimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468);
}
bool IsAscii(std::string_view text) {
  return CodePoints(text) == static_cast<int64_t>(text.size());
}

template <Side kSide>
absl::StatusOr<Value> StripMethod(Runtime& runtime, const Text& self,
                                  const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"chars"}));
  const bool given = bound[0].has_value() && !bound[0]->none();
  if (!given) {
    return runtime.NewText(std::string(Strip(self.bytes, kSide)), self.markup);
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string chars, TextOr(bound[0], "", "chars"));
  MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(chars.size())));
  return runtime.NewText(std::string(Strip(self.bytes, kSide, chars)), self.markup);
}

// A search from the right takes time proportional to the product of both lengths.
absl::Status SpendSearch(Runtime& runtime, size_t text, size_t wanted,
                         bool from_right) {
  MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(text)));
  if (!from_right) return absl::OkStatus();
  const Int steps = static_cast<Int>(text) * static_cast<Int>(wanted) / 1024;
  return runtime.Spend(static_cast<int64_t>(std::min<Int>(steps, kMaxSteps + 1)));
}

template <bool kFromRight>
absl::StatusOr<Value> SplitMethod(Runtime& runtime, const Text& self,
                                  const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"sep", "maxsplit"}));
  MNEMON_ASSIGN_OR_RETURN(const int64_t most, IntOr(bound[1], -1, "maxsplit"));
  if (!bound[0].has_value() || bound[0]->none()) {
    return ListOfTexts(runtime, Split(self.bytes, std::nullopt, most, kFromRight));
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string separator, TextOr(bound[0], "", "sep"));
  if (separator.empty()) return Fail("the separator is empty");
  MNEMON_RETURN_IF_ERROR(
      SpendSearch(runtime, self.bytes.size(), separator.size(), kFromRight));
  return ListOfTexts(runtime, Split(self.bytes, separator, most, kFromRight));
}

absl::StatusOr<Value> SplitLinesMethod(Runtime& runtime, const Text& self,
                                       const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"keepends"}));
  return ListOfTexts(runtime, SplitLines(self.bytes, TruthOr(bound[0], false)));
}

template <bool kFromRight>
absl::StatusOr<Value> PartitionMethod(Runtime& runtime, const Text& self,
                                      const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"sep"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const std::string separator, TextOr(bound[0], "", "sep"));
  if (separator.empty()) return Fail("the separator is empty");
  MNEMON_RETURN_IF_ERROR(
      SpendSearch(runtime, self.bytes.size(), separator.size(), kFromRight));
  const size_t at =
      kFromRight ? self.bytes.rfind(separator) : Find(self.bytes, separator);
  std::vector<Value> parts(3, Value::OfText(""));
  if (at == std::string::npos) {
    MNEMON_ASSIGN_OR_RETURN(parts[kFromRight ? 2 : 0], runtime.NewText(self.bytes));
  } else {
    MNEMON_ASSIGN_OR_RETURN(parts[0], runtime.NewText(self.bytes.substr(0, at)));
    parts[1] = *bound[0];
    MNEMON_ASSIGN_OR_RETURN(parts[2],
                            runtime.NewText(self.bytes.substr(at + separator.size())));
  }
  return runtime.NewSequence(std::move(parts), Sequence::kTuple);
}

// The part of a string between start and end, in code points.
struct Window {
  std::string_view text;
  int64_t begin;  // code points before it
  bool outside;   // start is past the end
};

absl::StatusOr<Window> WindowOf(Runtime& runtime, const Text& self,
                                const std::optional<Value>& start,
                                const std::optional<Value>& end) {
  const auto given = [](const std::optional<Value>& value) {
    return value.has_value() && value->none() ? std::nullopt : value;
  };
  MNEMON_ASSIGN_OR_RETURN(int64_t from, IntOr(given(start), 0, "start"));
  MNEMON_ASSIGN_OR_RETURN(int64_t to, IntOr(given(end), self.length, "end"));
  MNEMON_RETURN_IF_ERROR(
      runtime.Spend(static_cast<int64_t>(self.bytes.size()) / kStepBytes));
  to = std::min(to, self.length);
  if (from < 0) from = std::max<int64_t>(0, from + self.length);
  if (to < 0) to = std::max<int64_t>(0, to + self.length);
  if (from > to) return Window{"", from, true};
  const std::string_view rest =
      std::string_view(self.bytes).substr(ByteOf(self.bytes, from));
  return Window{rest.substr(0, ByteOf(rest, to - from)), from, false};
}

template <bool kAtEnd>
absl::StatusOr<Value> AffixMethod(Runtime& runtime, const Text& self,
                                  const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"affix", "start", "end"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const Window window,
                          WindowOf(runtime, self, bound[1], bound[2]));
  const std::vector<Value> one = {*bound[0]};
  for (const Value& affix : bound[0]->IsTuple() ? bound[0]->sequence()->items : one) {
    if (affix.text() == nullptr) {
      return Fail("takes a str or a tuple of them, not a ", affix.type());
    }
    const std::string& bytes = affix.text()->bytes;
    if (!window.outside &&
        (kAtEnd ? window.text.ends_with(bytes) : window.text.starts_with(bytes))) {
      return Value::OfBool(true);
    }
  }
  return Value::OfBool(false);
}

enum class Search { kFind, kIndex, kCount };

template <Search kSearch, bool kFromRight>
absl::StatusOr<Value> SearchMethod(Runtime& runtime, const Text& self,
                                   const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"sub", "start", "end"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const std::string wanted, TextOr(bound[0], "", "sub"));
  MNEMON_ASSIGN_OR_RETURN(const Window window,
                          WindowOf(runtime, self, bound[1], bound[2]));
  MNEMON_RETURN_IF_ERROR(
      SpendSearch(runtime, self.bytes.size(), wanted.size(), kFromRight));
  if (kSearch == Search::kCount) {
    if (window.outside) return Value(Int{0});
    if (wanted.empty()) return Value(static_cast<Int>(CodePoints(window.text) + 1));
    Int count = 0;
    for (size_t at = Find(window.text, wanted); at != std::string_view::npos;
         at = Find(window.text, wanted, at + wanted.size())) {
      ++count;
    }
    return Value(count);
  }
  const size_t at = window.outside ? std::string_view::npos
                    : kFromRight   ? window.text.rfind(wanted)
                                   : Find(window.text, wanted);
  if (at != std::string_view::npos) {
    return Value(
        static_cast<Int>(window.begin + CodePoints(window.text.substr(0, at))));
  }
  if (kSearch == Search::kIndex) return Fail("the substring is not found");
  return Value(Int{-1});
}

absl::StatusOr<Value> ReplaceMethod(Runtime& runtime, const Text& self,
                                    const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"old", "new", "count"}, 2));
  MNEMON_ASSIGN_OR_RETURN(const std::string old, TextOr(bound[0], "", "old"));
  MNEMON_ASSIGN_OR_RETURN(const std::string by, TextOr(bound[1], "", "new"));
  MNEMON_ASSIGN_OR_RETURN(const int64_t count, IntOr(bound[2], -1, "count"));
  return ReplaceText(runtime, self.bytes, old, by, count);
}

absl::StatusOr<Value> JoinMethod(Runtime& runtime, const Text& self,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"iterable"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, *bound[0]));
  return JoinTexts(runtime, self.bytes, *items, /*strict=*/true);
}

template <bool kAtEnd>
absl::StatusOr<Value> RemoveAffixMethod(Runtime& runtime, const Text& self,
                                        const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"affix"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const std::string affix, TextOr(bound[0], "", "affix"));
  std::string_view rest = self.bytes;
  if (kAtEnd && rest.ends_with(affix)) rest.remove_suffix(affix.size());
  if (!kAtEnd && rest.starts_with(affix)) rest.remove_prefix(affix.size());
  return runtime.NewText(std::string(rest));
}

template <int kLeft>
absl::StatusOr<Value> PadMethod(Runtime& runtime, const Text& self,
                                const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"width", "fillchar"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const int64_t width, IntOr(bound[0], 0, "width"));
  MNEMON_ASSIGN_OR_RETURN(const std::string fill, TextOr(bound[1], " ", "fillchar"));
  return PadText(runtime, self, width, fill, kLeft);
}

absl::StatusOr<Value> ZeroFillMethod(Runtime& runtime, const Text& self,
                                     const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"width"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const int64_t width, IntOr(bound[0], 0, "width"));
  const bool sign = self.bytes.starts_with("+") || self.bytes.starts_with("-");
  const Value digits = Value::OfText(self.bytes.substr(sign ? 1 : 0));
  MNEMON_ASSIGN_OR_RETURN(const Value padded, PadText(runtime, *digits.text(),
                                                      width - (sign ? 1 : 0), "0", 2));
  return runtime.NewText(self.bytes.substr(0, sign ? 1 : 0) + padded.text()->bytes);
}

struct TextMethodEntry {
  std::string_view name;
  TextMethod call;
};

constexpr TextMethodEntry kTextMethods[] = {
    {"capitalize", Changed<Capitalize>},
    {"center", PadMethod<1>},
    {"count", SearchMethod<Search::kCount, false>},
    {"endswith", AffixMethod<true>},
    {"find", SearchMethod<Search::kFind, false>},
    {"index", SearchMethod<Search::kIndex, false>},
    {"isalnum", Holds<AllCharacters<IsAlphanumeric>>},
    {"isalpha", Holds<AllCharacters<IsLetter>>},
    {"isascii", Holds<IsAscii>},
    {"isdecimal", Holds<AllCharacters<IsDecimal>>},
    {"isdigit", Holds<AllCharacters<IsDigit>>},
    {"islower", Holds<IsLowerText>},
    {"isnumeric", Holds<AllCharacters<IsNumeric>>},
    {"isspace", Holds<AllCharacters<IsSpace>>},
    {"isupper", Holds<IsUpperText>},
    {"join", JoinMethod},
    {"ljust", PadMethod<0>},
    {"lower", Changed<Lower>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffixMethod<false>},
    {"removesuffix", RemoveAffixMethod<true>},
    {"replace", ReplaceMethod},
    {"rfind", SearchMethod<Search::kFind, true>},
    {"rindex", SearchMethod<Search::kIndex, true>},
    {"rjust", PadMethod<2>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", AffixMethod<false>},
    {"strip", StripMethod<Side::kBoth>},
    {"swapcase", Changed<SwapCase>},
    {"title", Changed<TitleCase>},
    {"upper", Changed<Upper>},
    {"zfill", ZeroFillMethod},
};

}  // namespace

TextMethod FindTextMethod(std::string_view name) {
  for (const TextMethodEntry& entry : kTextMethods) {
    if (entry.name == name) return entry.call;
  }
  return nullptr;
}

}  // namespace mnemon::jinja
