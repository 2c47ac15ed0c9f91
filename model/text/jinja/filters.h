// SPDX-License-Identifier: MIT
// Filters: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

using Filter = absl::StatusOr<Value> (*)(Runtime& runtime, const Value& value,
                                         const Arguments& arguments);

bool IsFilter(std::string_view name);
// INVALID_ARGUMENT names an unknown filter.
absl::StatusOr<Value> ApplyFilter(Runtime& runtime, std::string_view name,
                                  const Value& value, const Arguments& arguments);

// The value below `value` at a path of names and numbers separated by dots.
absl::StatusOr<Value> AtPath(Runtime& runtime, const Value& value, const Value& path,
                             const std::optional<Value>& otherwise = std::nullopt);

// Filters of sequences, in sequence_filters.cc; null if there is none of the name.
Filter FindSequenceFilter(std::string_view name);

}  // namespace mnemon::jinja
