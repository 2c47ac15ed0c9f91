// SPDX-License-Identifier: MIT
#include "model/text/jinja/tests.h"

#include "base/quote.h"
#include "base/status_macros.h"
#include "model/text/jinja/filters.h"
#include "model/text/jinja/operators.h"
#include "model/text/jinja/python_text.h"

namespace mnemon::jinja {
namespace {

using Predicate = bool (*)(const Value& value);
using Test = absl::StatusOr<bool> (*)(Runtime& runtime, const Value& value,
                                      const Arguments& arguments);

template <bool (*kHolds)(const Value&)>
absl::StatusOr<bool> Plain(Runtime& runtime, const Value& value,
                           const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return kHolds(value);
}

bool IsDefined(const Value& value) { return !value.undefined(); }
bool IsUndefined(const Value& value) { return value.undefined(); }
bool IsNone(const Value& value) { return value.none(); }
bool IsBoolean(const Value& value) { return value.boolean() != nullptr; }
bool IsTrue(const Value& value) { return value.boolean() != nullptr && value.truth(); }
bool IsFalse(const Value& value) {
  return value.boolean() != nullptr && !value.truth();
}
bool IsInteger(const Value& value) {
  return value.integer().has_value() && value.boolean() == nullptr;
}
bool IsFloat(const Value& value) { return value.number() != nullptr; }
bool IsNumber(const Value& value) { return value.real().has_value(); }
bool IsString(const Value& value) { return value.text() != nullptr; }
bool IsMapping(const Value& value) { return value.dict() != nullptr; }
bool IsSequence(const Value& value) {
  return value.undefined() || value.text() != nullptr || value.dict() != nullptr ||
         (value.sequence() != nullptr && value.sequence()->kind < Sequence::kKeys);
}
bool IsCallable(const Value& value) {
  // Undefined values are callable: the call fails.
  return value.callable() != nullptr || value.loop() != nullptr || value.undefined();
}
bool IsEscaped(const Value& value) {
  return value.text() != nullptr && value.text()->markup;
}

template <bool (*kHolds)(std::string_view)>
absl::StatusOr<bool> OfText(Runtime& runtime, const Value& value,
                            const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  MNEMON_ASSIGN_OR_RETURN(const std::string text, Str(runtime, value));
  return kHolds(text);
}

absl::StatusOr<Value> Other(const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"other"}, 1));
  return *bound[0];
}

template <bool kWanted>
absl::StatusOr<bool> IsEqual(Runtime& runtime, const Value& value,
                             const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const Value other, Other(arguments));
  MNEMON_ASSIGN_OR_RETURN(const bool same, Equal(runtime, value, other));
  return same == kWanted;
}

template <char kFirst, bool kOrEqual>
absl::StatusOr<bool> IsOrdered(Runtime& runtime, const Value& value,
                               const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const Value other, Other(arguments));
  constexpr char kOrder[] = {kFirst, '='};
  return Ordered(runtime, std::string_view(kOrder, kOrEqual ? 2 : 1), value, other);
}

absl::StatusOr<bool> IsContained(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"seq"}, 1));
  return Contains(runtime, *bound[0], value);
}

absl::StatusOr<bool> IsSameAs(Runtime& runtime, const Value& value,
                              const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const Value other, Other(arguments));
  if (value.text() != nullptr && other.text() != nullptr) {
    return Equal(runtime, value, other);
  }
  return value.SameAs(other);
}

absl::StatusOr<bool> LeavesRest(Runtime& runtime, const Value& value,
                                const Value& divisor, Int rest) {
  MNEMON_ASSIGN_OR_RETURN(const Value left, Calculate(runtime, "%", value, divisor));
  return Equal(runtime, left, Value(rest));
}

template <int kRest>
absl::StatusOr<bool> HasParity(Runtime& runtime, const Value& value,
                               const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return LeavesRest(runtime, value, Value(Int{2}), kRest);
}

absl::StatusOr<bool> IsDivisible(Runtime& runtime, const Value& value,
                                 const Arguments& arguments) {
  MNEMON_ASSIGN_OR_RETURN(const auto bound, Bind(arguments, {"num"}, 1));
  return LeavesRest(runtime, value, *bound[0], 0);
}

absl::StatusOr<bool> IsIterableValue(Runtime& runtime, const Value& value,
                                     const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return IsIterable(value) || value.loop() != nullptr;
}

template <bool (*kExists)(std::string_view)>
absl::StatusOr<bool> NamesOne(Runtime& runtime, const Value& value,
                              const Arguments& arguments) {
  MNEMON_RETURN_IF_ERROR(Bind(arguments, {}).status());
  return value.text() != nullptr && kExists(value.text()->bytes);
}

struct TestEntry {
  std::string_view name;
  Test holds;
};

constexpr TestEntry kTests[] = {
    {"!=", IsEqual<false>},
    {"<", IsOrdered<'<', false>},
    {"<=", IsOrdered<'<', true>},
    {"==", IsEqual<true>},
    {">", IsOrdered<'>', false>},
    {">=", IsOrdered<'>', true>},
    {"boolean", Plain<IsBoolean>},
    {"callable", Plain<IsCallable>},
    {"defined", Plain<IsDefined>},
    {"divisibleby", IsDivisible},
    {"eq", IsEqual<true>},
    {"equalto", IsEqual<true>},
    {"escaped", Plain<IsEscaped>},
    {"even", HasParity<0>},
    {"false", Plain<IsFalse>},
    {"filter", NamesOne<IsFilter>},
    {"float", Plain<IsFloat>},
    {"ge", IsOrdered<'>', true>},
    {"greaterthan", IsOrdered<'>', false>},
    {"gt", IsOrdered<'>', false>},
    {"in", IsContained},
    {"integer", Plain<IsInteger>},
    {"iterable", IsIterableValue},
    {"le", IsOrdered<'<', true>},
    {"lessthan", IsOrdered<'<', false>},
    {"lower", OfText<IsLowerText>},
    {"lt", IsOrdered<'<', false>},
    {"mapping", Plain<IsMapping>},
    {"ne", IsEqual<false>},
    {"none", Plain<IsNone>},
    {"number", Plain<IsNumber>},
    {"odd", HasParity<1>},
    {"sameas", IsSameAs},
    {"sequence", Plain<IsSequence>},
    {"string", Plain<IsString>},
    {"test", NamesOne<IsTest>},
    {"true", Plain<IsTrue>},
    {"undefined", Plain<IsUndefined>},
    {"upper", OfText<IsUpperText>},
};

}  // namespace

bool IsTest(std::string_view name) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return true;
  }
  return false;
}

absl::StatusOr<bool> ApplyTest(Runtime& runtime, std::string_view name,
                               const Value& value, const Arguments& arguments) {
  for (const TestEntry& entry : kTests) {
    if (entry.name == name) return entry.holds(runtime, value, arguments);
  }
  return Fail("unknown test ", Quoted(name));
}

}  // namespace mnemon::jinja
