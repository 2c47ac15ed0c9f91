// SPDX-License-Identifier: MIT
// Operators of expressions, with Python's meaning. INVALID_ARGUMENT if Python has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

absl::StatusOr<bool> Equal(Runtime& runtime, const Value& a, const Value& b);
// `order`: < <= > >=
absl::StatusOr<bool> Ordered(Runtime& runtime, std::string_view order, const Value& a,
                             const Value& b);
absl::StatusOr<bool> Contains(Runtime& runtime, const Value& where, const Value& what);

// `symbol`: + - * / // % **
absl::StatusOr<Value> Calculate(Runtime& runtime, std::string_view symbol,
                                const Value& a, const Value& b);
absl::StatusOr<Value> Negate(const Value& value);

// `value % arguments` of a string: percent_format.cc.
absl::StatusOr<Value> FormatPercent(Runtime& runtime, std::string_view format,
                                    const Value& arguments);

// `value[key]`, and `value[from:to:step]`, in which undefined parts count as omitted.
absl::StatusOr<Value> Item(Runtime& runtime, const Value& value, const Value& key);
absl::StatusOr<Value> Slice(Runtime& runtime, const Value& value,
                            const std::optional<Value>& from,
                            const std::optional<Value>& to,
                            const std::optional<Value>& step);
// `value.name`: a method or property first, then a key.
absl::StatusOr<Value> Attribute(Runtime& runtime, const Value& value,
                                std::string_view name);

// Escapes & < > ' " as HTML, like the filter escape. Markup is unchanged.
absl::StatusOr<std::string> Escaped(Runtime& runtime, const Value& value);

}  // namespace mnemon::jinja
