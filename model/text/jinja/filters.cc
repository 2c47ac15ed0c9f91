// SPDX-License-Identifier: MIT
// Filters of strings, numbers and single values.
#include "model/text/jinja/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"
#include "model/text/jinja/to_json.h"
#include "model/text/unicode/unicode.h"

namespace mnemon::jinja {
namespace {

bool IsMarkup(const Value& value) {
  return value.text() != nullptr && value.text()->markup;
}

template <std::string (*kChange)(std::string_view)>
absl::StatusOr<Value> ChangeText(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime, value));
  MNEMON_RETURN_IF_ERROR(
      runtime.Spend(static_cast<int64_t>(text.size()) / kCaseStepBytes));
  return runtime.NewText(kChange(text), IsMarkup(value));
}

// Words begin after white space and - ( { [ <.
std::string TitleOfWords(std::string_view text) {
  std::string out;
  bool first = true;
  std::string rest;  // rest of a word; lower case depends on neighbours
  const auto flush = [&] {
    out += Lower(rest);
    rest.clear();
  };
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    const char32_t c = CodePointAt(text, at);
    const std::string_view character = text.substr(at, CodePointBytes(text, at));
    if (IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      flush();
      out += character;
      first = true;
    } else if (first) {
      out += Upper(character);
      first = false;
    } else {
      rest += character;
    }
  }
  flush();
  return out;
}

absl::StatusOr<Value> StringFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (value.text() != nullptr) return value;
  MNEMON_ASSIGN_OR_RETURN(std::string text, Str(runtime, value));
  return runtime.NewText(std::move(text));
}

absl::StatusOr<Value> SafeFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(std::string text, Str(runtime, value));
  return runtime.NewText(std::move(text), /*markup=*/true);
}

absl::StatusOr<Value> EscapeFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(std::string text, Escaped(runtime, value));
  return runtime.NewText(std::move(text), /*markup=*/true);
}

absl::StatusOr<Value> TrimFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"chars"}));
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime, value));
  std::optional<std::string> chars;
  if (bound[0].has_value() && !bound[0]->none()) {
    MNEMON_ASSIGN_OR_RETURN(chars, TextOr(bound[0], "", "chars"));
    MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(chars->size())));
  }
  return runtime.NewText(std::string(Strip(text, Side::kBoth, chars)), IsMarkup(value));
}

absl::StatusOr<Value> ReplaceFilter(Runtime& runtime, const Value& value,
                                    const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"old", "new", "count"}, 2));
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime, value));
  MNEMON_ASSIGN_OR_RETURN(const std::string old, Str(runtime, *bound[0]));
  MNEMON_ASSIGN_OR_RETURN(const std::string by, Str(runtime, *bound[1]));
  const bool all = !bound[2].has_value() || bound[2]->none();
  MNEMON_ASSIGN_OR_RETURN(const int64_t count,
                          all ? int64_t{-1} : IntOr(bound[2], -1, "count"));
  return ReplaceText(runtime, text, old, by, count);
}

absl::StatusOr<Value> CenterFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"width"}));
  MNEMON_ASSIGN_OR_RETURN(const int64_t width, IntOr(bound[0], 80, "width"));
  MNEMON_ASSIGN_OR_RETURN(std::string text, Str(runtime, value));
  return PadText(runtime, *Value::OfText(std::move(text)).text(), width, " ", 1);
}

absl::StatusOr<Value> IndentFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"width", "first", "blank"}));
  if (value.undefined()) return Fail(value.why());
  if (value.text() == nullptr) return Fail("indent of a ", value.type());
  std::string indent;
  if (bound[0].has_value() && bound[0]->text() != nullptr) {
    indent = bound[0]->text()->bytes;
  } else {
    MNEMON_ASSIGN_OR_RETURN(const int64_t width, IntOr(bound[0], 4, "width"));
    constexpr int64_t kMost = 1000;
    if (width > kMost) return TooMuch("spaces of an indent", kMost);
    indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool first = TruthOr(bound[1], false), blank = TruthOr(bound[2], false);
  // jinja2 appends a line end, which makes the last line like the others.
  const std::string text = value.text()->bytes + "\n";
  std::string out = first ? indent : "";
  bool begun = false;
  for (const std::string_view line : SplitLines(text, /*keep_ends=*/false)) {
    if (begun) out += '\n';
    if (begun && (blank || !line.empty())) out += indent;
    begun = true;
    out += line;
    MNEMON_RETURN_IF_ERROR(
        runtime.Spend(1 + static_cast<int64_t>(indent.size()) / kStepBytes));
    if (static_cast<int64_t>(out.size()) > kMaxTextBytes) {
      return TooMuch("bytes of a string", kMaxTextBytes);
    }
  }
  return runtime.NewText(std::move(out), IsMarkup(value));
}

absl::StatusOr<Value> WordCountFilter(Runtime& runtime, const Value& value,
                                      const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime, value));
  Int count = 0;
  bool within = false;
  for (size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) {
    const char32_t c = CodePointAt(text, at);
    // Python's \w has no marks.
    const bool word = c == '_' || IsIn(CharacterClass::kLetter, c) ||
                      IsIn(CharacterClass::kNumber, c);
    if (word && !within) ++count;
    within = word;
  }
  return Value(count);
}

absl::StatusOr<Value> FormatFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const std::string format, Str(runtime, value));
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return Fail("takes positional or named arguments, not both");
  }
  if (arguments.named.empty()) {
    MNEMON_ASSIGN_OR_RETURN(
        const Value tuple, runtime.NewSequence(arguments.positional, Sequence::kTuple));
    return FormatPercent(runtime, format, tuple);
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [name, held] : arguments.named) {
    entries.emplace_back(Value::OfText(name), held);
  }
  MNEMON_ASSIGN_OR_RETURN(const Value dict, runtime.NewDict(std::move(entries)));
  return FormatPercent(runtime, format, dict);
}

absl::StatusOr<Value> DefaultFilter(Runtime& runtime, const Value& value,
                                    const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound,
                          Bind(arguments, {"default_value", "boolean"}));
  if (value.undefined() || (TruthOr(bound[1], false) && !value.truth())) {
    return bound[0].value_or(Value::OfText(""));
  }
  return value;
}

// Removes single _ between digits, as Python does; nullopt if malformed.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto digit = [&](size_t at) {
      return at < text.size() &&
             std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  return out;
}

// Like int(text, base); nullopt if Python raises ValueError.
absl::StatusOr<std::optional<Int>> ReadInt(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return Fail("base must be 0 or 2 to 36");
  text = Strip(text, Side::kBoth);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t named = letter == 'x'   ? 16
                          : letter == 'o' ? 8
                          : letter == 'b' ? 2
                                          : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    }
  }
  const std::optional<std::string> digits = WithoutUnderscores(text);
  if (!digits.has_value() || digits->empty()) return std::nullopt;
  if (base == 0) {
    if (digits->size() > 1 && (*digits)[0] == '0' &&
        digits->find_first_not_of('0') != std::string::npos) {
      return std::nullopt;
    }
    base = 10;
  }
  Int number = 0;
  for (const char c : *digits) {
    const char lower = static_cast<char>(c | 0x20);
    const Int digit = c >= '0' && c <= '9'           ? c - '0'
                      : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10
                                                     : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(number, static_cast<Int>(base), &number) ||
        __builtin_add_overflow(number, digit, &number)) {
      return absl::ResourceExhaustedError("an int has more than 127 bits");
    }
  }
  return negative ? -number : number;
}

// Like float(text).
std::optional<double> ReadFloat(std::string_view text) {
  std::optional<std::string> plain = WithoutUnderscores(Strip(text, Side::kBoth));
  if (!plain.has_value()) return std::nullopt;
  std::string_view rest = *plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-') return std::nullopt;
  double number = 0;
  const std::string lower = Lower(rest);
  if (lower == "inf" || lower == "infinity") {
    number = HUGE_VAL;
  } else if (lower == "nan") {
    number = std::nan("");
  } else {
    const bool letters = lower.find_first_not_of("0123456789.e+-") != std::string::npos;
    if (letters) return std::nullopt;
    const auto read =
        std::from_chars(lower.data(), lower.data() + lower.size(), number);
    if (read.ptr != lower.data() + lower.size()) return std::nullopt;
    // Too large or too small: strtod returns infinity or zero as Python does.
    if (read.ec != std::errc()) number = std::strtod(lower.c_str(), nullptr);
  }
  return negative ? -number : number;
}

absl::StatusOr<Value> IntOfFloat(double number, const Value& otherwise) {
  if (std::isnan(number) || std::isinf(number)) return otherwise;
  if (std::abs(number) >= 0x1p126) {
    return absl::ResourceExhaustedError("an int has more than 127 bits");
  }
  return Value(static_cast<Int>(number));
}

absl::StatusOr<Value> IntFilter(Runtime& runtime, const Value& value,
                                const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"default", "base"}));
  MNEMON_ASSIGN_OR_RETURN(const int64_t base, IntOr(bound[1], 10, "base"));
  const Value otherwise = bound[0].value_or(Value(Int{0}));
  if (value.undefined()) return Fail(value.why());
  if (const auto whole = value.integer()) return Value(*whole);
  if (value.number() != nullptr) {
    // The only one that jinja2 does not turn into the default.
    if (std::isinf(*value.number())) return Fail("an infinity is not an int");
    return IntOfFloat(*value.number(), otherwise);
  }
  if (value.text() == nullptr) return otherwise;
  MNEMON_ASSIGN_OR_RETURN(const auto whole, ReadInt(value.text()->bytes, base));
  if (whole.has_value()) return Value(*whole);
  const std::optional<double> number = ReadFloat(value.text()->bytes);
  return number.has_value() ? IntOfFloat(*number, otherwise) : otherwise;
}

absl::StatusOr<Value> FloatFilter(Runtime& runtime, const Value& value,
                                  const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"default"}));
  if (value.undefined()) return Fail(value.why());
  std::optional<double> number = value.real();
  if (value.text() != nullptr) number = ReadFloat(value.text()->bytes);
  return number.has_value() ? Value(*number) : bound[0].value_or(Value(0.0));
}

absl::StatusOr<Value> AbsFilter(Runtime& runtime, const Value& value,
                                const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (value.number() != nullptr) return Value(std::abs(*value.number()));
  const auto whole = value.integer();
  if (!whole.has_value()) return Fail("abs of a ", value.type());
  return *whole < 0 ? Negate(value) : Value(*whole);
}

// Rounds half to even, exactly, like round() of Python.
double RoundedTo(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 300) return number;
  if (digits < -300) return std::copysign(0.0, number);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / unit) * unit;
  }
  char text[1024];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), number);
  return std::strtod(text, nullptr);
}

absl::StatusOr<Value> RoundFilter(Runtime& runtime, const Value& value,
                                  const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"precision", "method"}));
  MNEMON_ASSIGN_OR_RETURN(const int64_t digits, IntOr(bound[0], 0, "precision"));
  MNEMON_ASSIGN_OR_RETURN(const std::string method,
                          TextOr(bound[1], "common", "method"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return Fail("method must be common, ceil or floor");
  }
  const std::optional<double> number = value.real();
  if (!number.has_value()) return Fail("round of a ", value.type());
  if (method == "common") {
    if (value.number() != nullptr) return Value(RoundedTo(*number, digits));
    if (digits >= 0) return Value(*value.integer());
    if (digits < -36) return Value(Int{0});
    Int unit = 1;
    for (int64_t i = digits; i < 0; ++i) unit *= 10;
    MNEMON_ASSIGN_OR_RETURN(const Value floor,
                            Calculate(runtime, "//", value, Value(unit)));
    Int whole = *floor.integer();
    const Int rest = *value.integer() - whole * unit;
    if (rest * 2 > unit || (rest * 2 == unit && whole % 2 != 0)) ++whole;
    return Value(whole * unit);
  }
  MNEMON_ASSIGN_OR_RETURN(const Value unit, Calculate(runtime, "**", Value(Int{10}),
                                                      Value(static_cast<Int>(digits))));
  MNEMON_ASSIGN_OR_RETURN(const Value scaled, Calculate(runtime, "*", value, unit));
  Value whole = scaled;
  if (scaled.number() != nullptr) {
    const double cut =
        method == "ceil" ? std::ceil(*scaled.number()) : std::floor(*scaled.number());
    if (std::isnan(cut) || std::isinf(cut)) return Fail("round of an infinity");
    MNEMON_ASSIGN_OR_RETURN(whole, IntOfFloat(cut, Value()));
  }
  return Calculate(runtime, "/", whole, unit);
}

absl::StatusOr<Value> AttrFilter(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"name"}, 1));
  MNEMON_ASSIGN_OR_RETURN(const std::string name, TextOr(bound[0], "", "name"));
  if (value.undefined()) return Fail(value.why());
  // Only methods, not keys.
  if (value.dict() == nullptr) return Attribute(runtime, value, name);
  MNEMON_ASSIGN_OR_RETURN(const Value empty, runtime.NewDict({}));
  MNEMON_ASSIGN_OR_RETURN(const Value found, Attribute(runtime, empty, name));
  return found.undefined() ? found : Attribute(runtime, value, name);
}

absl::StatusOr<Value> LengthFilter(Runtime& runtime, const Value& value,
                                   const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  const std::optional<int64_t> length = LengthOf(value);
  if (!length.has_value()) return Fail("a ", value.type(), " has no length");
  return Value(static_cast<Int>(*length));
}

struct FilterEntry {
  std::string_view name;
  Filter call;
};

constexpr FilterEntry kFilters[] = {
    {"abs", AbsFilter},
    {"attr", AttrFilter},
    {"capitalize", ChangeText<Capitalize>},
    {"center", CenterFilter},
    {"count", LengthFilter},
    {"d", DefaultFilter},
    {"default", DefaultFilter},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"float", FloatFilter},
    {"format", FormatFilter},
    {"indent", IndentFilter},
    {"int", IntFilter},
    {"length", LengthFilter},
    {"lower", ChangeText<Lower>},
    {"replace", ReplaceFilter},
    {"round", RoundFilter},
    {"safe", SafeFilter},
    {"string", StringFilter},
    {"title", ChangeText<TitleOfWords>},
    {"tojson", ToJson},
    {"trim", TrimFilter},
    {"upper", ChangeText<Upper>},
    {"wordcount", WordCountFilter},
};

Filter FindFilter(std::string_view name) {
  for (const FilterEntry& entry : kFilters) {
    if (entry.name == name) return entry.call;
  }
  return FindSequenceFilter(name);
}

}  // namespace

bool IsFilter(std::string_view name) { return FindFilter(name) != nullptr; }

absl::StatusOr<Value> ApplyFilter(Runtime& runtime, std::string_view name,
                                  const Value& value, const Arguments& arguments) {
  const Filter filter = FindFilter(name);
  if (filter == nullptr) return Fail("unknown filter ", Quoted(name));
  return filter(runtime, value, arguments);
}

}  // namespace mnemon::jinja
