// SPDX-License-Identifier: MIT
#include "model/text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/functions.h"
#include "model/text/jinja/methods.h"
#include "model/text/jinja/python_text.h"

namespace mnemon::jinja {
namespace {

absl::StatusOr<bool> EqualItems(Runtime& runtime, const std::vector<Value>& a,
                                const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].SameAs(b[i])) continue;
    MNEMON_ASSIGN_OR_RETURN(const bool same, Equal(runtime, a[i], b[i]));
    if (!same) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualDicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(*KeyOf(key));
    if (other == nullptr) return false;
    if (value.SameAs(*other)) continue;
    MNEMON_ASSIGN_OR_RETURN(const bool same, Equal(runtime, value, *other));
    if (!same) return false;
  }
  return true;
}

// Exact for every int of 64 bits.
long double WideReal(const Value& value) {
  if (value.number() != nullptr) return *value.number();
  return static_cast<long double>(*value.integer());
}

template <class T>
bool InOrder(std::string_view order, const T& a, const T& b) {
  if (order == "<") return a < b;
  if (order == "<=") return a <= b;
  return order == ">" ? a > b : a >= b;
}

}  // namespace

absl::StatusOr<bool> Equal(Runtime& runtime, const Value& a, const Value& b) {
  MNEMON_RETURN_IF_ERROR(runtime.Spend(1));
  if (a.integer().has_value() && b.integer().has_value()) {
    return *a.integer() == *b.integer();
  }
  if (a.real().has_value() && b.real().has_value()) {
    return WideReal(a) == WideReal(b);
  }
  if (a.sequence() != nullptr && b.sequence() != nullptr) {
    if (a.sequence()->kind != b.sequence()->kind) return false;
    return EqualItems(runtime, a.sequence()->items, b.sequence()->items);
  }
  if (a.dict() != nullptr && b.dict() != nullptr) {
    return EqualDicts(runtime, *a.dict(), *b.dict());
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    const std::string &left = a.text()->bytes, &right = b.text()->bytes;
    if (left.size() != right.size()) return false;
    MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(left.size())));
    return left == right;
  }
  return a.SameAs(b);
}

absl::StatusOr<bool> Ordered(Runtime& runtime, std::string_view order, const Value& a,
                             const Value& b) {
  MNEMON_RETURN_IF_ERROR(runtime.Spend(1));
  if (a.undefined() || b.undefined()) return Fail(a.undefined() ? a.why() : b.why());
  if (a.integer().has_value() && b.integer().has_value()) {
    return InOrder(order, *a.integer(), *b.integer());
  }
  if (a.real().has_value() && b.real().has_value()) {
    return InOrder(order, WideReal(a), WideReal(b));
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    const std::string &left = a.text()->bytes, &right = b.text()->bytes;
    MNEMON_RETURN_IF_ERROR(
        runtime.SpendText(static_cast<int64_t>(std::min(left.size(), right.size()))));
    return InOrder(order, left, right);
  }
  if ((a.IsList() && b.IsList()) || (a.IsTuple() && b.IsTuple())) {
    const auto& left = a.sequence()->items;
    const auto& right = b.sequence()->items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (left[i].SameAs(right[i])) continue;
      MNEMON_ASSIGN_OR_RETURN(const bool same, Equal(runtime, left[i], right[i]));
      if (!same) return Ordered(runtime, order, left[i], right[i]);
    }
    return InOrder(order, left.size(), right.size());
  }
  return Fail("no ", order, " between a ", a.type(), " and a ", b.type());
}

absl::StatusOr<bool> Contains(Runtime& runtime, const Value& where, const Value& what) {
  if (const Text* text = where.text()) {
    if (what.text() == nullptr) {
      return Fail("a str contains strings only, not a ", what.type());
    }
    MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(text->bytes.size())));
    return Find(text->bytes, what.text()->bytes) != std::string::npos;
  }
  if (where.dict() != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(const auto key, runtime.LookUpKey(what));
    return key.has_value() && where.dict()->Find(*key) != nullptr;
  }
  MNEMON_ASSIGN_OR_RETURN(const auto source, Iterate(runtime, where));
  while (true) {
    MNEMON_ASSIGN_OR_RETURN(const std::optional<Value> item, source->next());
    if (!item.has_value()) return false;
    if (item->SameAs(what)) return true;
    MNEMON_ASSIGN_OR_RETURN(const bool same, Equal(runtime, *item, what));
    if (same) return true;
  }
}

namespace {

absl::Status Overflow() {
  return absl::ResourceExhaustedError("an int has more than 127 bits");
}

absl::StatusOr<Value> Power(Int base, Int exponent) {
  Int result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return Overflow();
    }
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value(result);
}

absl::StatusOr<Value> CalculateInts(std::string_view symbol, Int a, Int b) {
  Int result = 0;
  if (symbol == "+") {
    if (__builtin_add_overflow(a, b, &result)) return Overflow();
  } else if (symbol == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return Overflow();
  } else if (symbol == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return Overflow();
  } else {
    if (b == 0) return Fail("division by zero");
    if (symbol == "/") {
      return Value(static_cast<double>(static_cast<long double>(a) /
                                       static_cast<long double>(b)));
    }
    // The least number has no positive counterpart.
    if (b == -1) {
      if (symbol == "%") return Value(Int{0});
      if (__builtin_sub_overflow(Int{0}, a, &result)) return Overflow();
      return Value(result);
    }
    result = a / b;
    Int rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
      --result;
      rest += b;
    }
    if (symbol == "%") return Value(rest);
  }
  return Value(result);
}

absl::StatusOr<Value> CalculateFloats(std::string_view symbol, double a, double b) {
  if (symbol == "+") return Value(a + b);
  if (symbol == "-") return Value(a - b);
  if (symbol == "*") return Value(a * b);
  if (symbol == "**") {
    if (a == 0 && b < 0) return Fail("0.0 cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) return Fail("a power is a complex number");
    const double power = std::pow(a, b);
    if (std::isinf(power) && !std::isinf(a) && !std::isinf(b)) {
      return Fail("a power is too large");
    }
    return Value(power);
  }
  if (b == 0) return Fail("division by zero");
  if (symbol == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  double whole = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      whole -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (symbol == "%") return Value(rest);
  if (whole == 0) return Value(std::copysign(0.0, a / b));
  double floor = std::floor(whole);
  if (whole - floor > 0.5) floor += 1;
  return Value(floor);
}

absl::StatusOr<Value> Repeat(Runtime& runtime, const Value& value, Int times) {
  const Int count = std::clamp<Int>(times, 0, kMaxTextBytes + 1);
  if (const Text* text = value.text()) {
    const Int bytes = static_cast<Int>(text->bytes.size()) * count;
    if (bytes > kMaxTextBytes) return TooMuch("bytes of a string", kMaxTextBytes);
    MNEMON_RETURN_IF_ERROR(runtime.Spend(static_cast<int64_t>(bytes) / kStepBytes));
    std::string out;
    out.reserve(static_cast<size_t>(bytes));
    if (bytes > 0) {
      for (Int i = 0; i < count; ++i) out += text->bytes;
    }
    return runtime.NewText(std::move(out), text->markup);
  }
  const auto& items = value.sequence()->items;
  const Int total = static_cast<Int>(items.size()) * count;
  MNEMON_RETURN_IF_ERROR(
      runtime.Spend(static_cast<int64_t>(std::min<Int>(total, Int{kMaxSteps} + 1))));
  std::vector<Value> out;
  for (Int i = 0; i < count && total > 0; ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return runtime.NewSequence(std::move(out), value.sequence()->kind);
}

absl::StatusOr<Value> Join(Runtime& runtime, const Value& a, const Value& b) {
  const Text *left = a.text(), *right = b.text();
  const bool markup = left->markup || right->markup;
  std::string first = left->bytes, second = right->bytes;
  if (markup) {
    MNEMON_ASSIGN_OR_RETURN(first, Escaped(runtime, a));
    MNEMON_ASSIGN_OR_RETURN(second, Escaped(runtime, b));
  }
  MNEMON_RETURN_IF_ERROR(
      runtime.SpendText(static_cast<int64_t>(first.size() + second.size())));
  return runtime.NewText(first + second, markup);
}

bool CanRepeat(const Value& value) {
  return value.text() != nullptr || value.IsList() || value.IsTuple();
}

}  // namespace

absl::StatusOr<Value> Calculate(Runtime& runtime, std::string_view symbol,
                                const Value& a, const Value& b) {
  if (symbol == "%" && a.text() != nullptr) {
    return FormatPercent(runtime, a.text()->bytes, b);
  }
  if (a.undefined() || b.undefined()) return Fail(a.undefined() ? a.why() : b.why());
  const auto left = a.integer(), right = b.integer();
  if (left.has_value() && right.has_value()) {
    if (symbol != "**") return CalculateInts(symbol, *left, *right);
    if (*right >= 0) return Power(*left, *right);
  }
  if (a.real().has_value() && b.real().has_value()) {
    return CalculateFloats(symbol, *a.real(), *b.real());
  }
  if (symbol == "+") {
    if (a.text() != nullptr && b.text() != nullptr) return Join(runtime, a, b);
    if ((a.IsList() && b.IsList()) || (a.IsTuple() && b.IsTuple())) {
      std::vector<Value> items = a.sequence()->items;
      const auto& more = b.sequence()->items;
      items.insert(items.end(), more.begin(), more.end());
      return runtime.NewSequence(std::move(items), a.sequence()->kind);
    }
  } else if (symbol == "*") {
    if (CanRepeat(a) && right.has_value()) return Repeat(runtime, a, *right);
    if (left.has_value() && CanRepeat(b)) return Repeat(runtime, b, *left);
  }
  return Fail("no ", symbol, " between a ", a.type(), " and a ", b.type());
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.number() != nullptr) return Value(-*value.number());
  if (const auto whole = value.integer()) return CalculateInts("-", 0, *whole);
  if (value.undefined()) return Fail(value.why());
  return Fail("a ", value.type(), " has no negative");
}

namespace {

// The character of `text` at `index`, indexed like a list.
absl::StatusOr<std::optional<Value>> ElementAt(Runtime& runtime, const Value& value,
                                               Int index) {
  const Int length = *LengthOf(value);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  const auto place = static_cast<size_t>(index);
  const Text* text = value.text();
  if (text == nullptr) return value.sequence()->items[place];
  if (text->ascii()) return Value::OfText(text->bytes.substr(place, 1));
  MNEMON_RETURN_IF_ERROR(runtime.Spend(static_cast<int64_t>(index / kStepBytes)));
  const size_t at = ByteOf(text->bytes, static_cast<int64_t>(index));
  return Value::OfText(text->bytes.substr(at, CodePointBytes(text->bytes, at)));
}

bool HasPlaces(const Value& value) {
  return value.text() != nullptr ||
         (value.sequence() != nullptr && value.sequence()->kind < Sequence::kKeys);
}

Value NoAttribute(const Value& value, std::string_view name) {
  return Value::Missing(StrCat("a ", value.type(), " has no attribute ", Quoted(name)));
}

}  // namespace

absl::StatusOr<Value> Item(Runtime& runtime, const Value& value, const Value& key) {
  if (value.undefined()) return Fail(value.why());
  if (value.dict() != nullptr) {
    const auto name = runtime.LookUpKey(key).value_or(std::nullopt);
    const Value* found = name.has_value() ? value.dict()->Find(*name) : nullptr;
    if (found != nullptr) return *found;
  } else if (HasPlaces(value)) {
    if (const auto index = key.integer()) {
      MNEMON_ASSIGN_OR_RETURN(std::optional<Value> found,
                              ElementAt(runtime, value, *index));
      if (found.has_value()) return *std::move(found);
    }
  }
  if (key.text() != nullptr) {
    MNEMON_ASSIGN_OR_RETURN(std::optional<Value> found,
                            PropertyOf(runtime, value, key.text()->bytes));
    if (found.has_value()) return *std::move(found);
    return NoAttribute(value, key.text()->bytes);
  }
  MNEMON_ASSIGN_OR_RETURN(const std::string shown, Repr(runtime, key));
  return Value::Missing(StrCat("a ", value.type(), " has no element ", Quoted(shown)));
}

absl::StatusOr<Value> Attribute(Runtime& runtime, const Value& value,
                                std::string_view name) {
  if (value.undefined()) return Fail(value.why());
  MNEMON_ASSIGN_OR_RETURN(std::optional<Value> found, PropertyOf(runtime, value, name));
  if (found.has_value()) return *std::move(found);
  if (value.dict() != nullptr) {
    if (const Value* held = value.dict()->Find(TextKey(name))) return *held;
  }
  return NoAttribute(value, name);
}

namespace {

// nullopt if omitted.
absl::StatusOr<std::optional<Int>> SlicePart(const std::optional<Value>& part) {
  if (!part.has_value() || part->none()) return std::nullopt;
  if (const auto whole = part->integer()) return whole;
  return Fail("the parts of a slice are int or none, not a ", part->type());
}

}  // namespace

absl::StatusOr<Value> Slice(Runtime& runtime, const Value& value,
                            const std::optional<Value>& from,
                            const std::optional<Value>& to,
                            const std::optional<Value>& step) {
  if (value.undefined()) return Fail(value.why());
  if (!HasPlaces(value)) return Fail("a ", value.type(), " has no slices");
  MNEMON_ASSIGN_OR_RETURN(const std::optional<Int> given, SlicePart(step));
  Int stride = given.value_or(1);
  if (stride == 0) return Fail("the step of a slice is 0");
  const Int length = *LengthOf(value);
  stride = std::clamp<Int>(stride, -length - 1, length + 1);
  const Int least = stride < 0 ? -1 : 0, most = stride < 0 ? length - 1 : length;
  const auto place = [&](const std::optional<Value>& part,
                         Int otherwise) -> absl::StatusOr<Int> {
    MNEMON_ASSIGN_OR_RETURN(const std::optional<Int> at, SlicePart(part));
    if (!at.has_value()) return otherwise;
    const Int from_begin = *at < 0 ? std::max<Int>(*at, -length - 1) + length : *at;
    return std::clamp<Int>(from_begin, least, most);
  };
  MNEMON_ASSIGN_OR_RETURN(const Int begin, place(from, stride < 0 ? most : 0));
  MNEMON_ASSIGN_OR_RETURN(const Int end, place(to, stride < 0 ? least : length));

  if (const Text* text = value.text()) {
    MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(text->bytes.size())));
    if (stride == 1) {
      const size_t first = text->ascii()
                               ? static_cast<size_t>(begin)
                               : ByteOf(text->bytes, static_cast<int64_t>(begin));
      if (end <= begin) return runtime.NewText("", text->markup);
      const std::string_view rest = std::string_view(text->bytes).substr(first);
      const size_t bytes = text->ascii()
                               ? static_cast<size_t>(end - begin)
                               : ByteOf(rest, static_cast<int64_t>(end - begin));
      return runtime.NewText(std::string(rest.substr(0, bytes)), text->markup);
    }
    std::vector<size_t> offsets;
    for (size_t at = 0; at < text->bytes.size();
         at += CodePointBytes(text->bytes, at)) {
      offsets.push_back(at);
    }
    offsets.push_back(text->bytes.size());
    std::string out;
    for (Int i = begin; stride > 0 ? i < end : i > end; i += stride) {
      const auto at = static_cast<size_t>(i);
      out += std::string_view(text->bytes)
                 .substr(offsets[at], offsets[at + 1] - offsets[at]);
    }
    return runtime.NewText(std::move(out), text->markup);
  }
  const Sequence& sequence = *value.sequence();
  if (sequence.kind == Sequence::kRange) {
    const Int each = sequence.step;
    const auto number = [](Int wide) {
      return static_cast<int64_t>(std::clamp<Int>(wide, INT64_MIN / 4, INT64_MAX / 4));
    };
    return NewRange(runtime, number(sequence.start + begin * each),
                    number(sequence.start + end * each), number(each * stride));
  }
  std::vector<Value> items;
  for (Int i = begin; stride > 0 ? i < end : i > end; i += stride) {
    items.push_back(sequence.items[static_cast<size_t>(i)]);
  }
  return runtime.NewSequence(std::move(items), sequence.kind);
}

absl::StatusOr<std::string> Escaped(Runtime& runtime, const Value& value) {
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime, value));
  if (value.text() != nullptr && value.text()->markup) return text;
  // "&#34;" is the longest.
  MNEMON_RETURN_IF_ERROR(runtime.SpendText(static_cast<int64_t>(5 * text.size())));
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (c == '"') {
      out += "&#34;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace mnemon::jinja
