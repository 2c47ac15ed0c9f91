// SPDX-License-Identifier: MIT
// The filter tojson: json.dumps of Python, and the way of JSON into a template.
#pragma once

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"
#include "nlohmann/json_fwd.hpp"

namespace mnemon::jinja {

// Arguments: ensure_ascii, indent, separators, sort_keys.
absl::StatusOr<Value> ToJson(Runtime& runtime, const Value& value,
                             const Arguments& arguments);

// Nesting is limited, strings are UTF-8.
absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json, int depth = 0);

}  // namespace mnemon::jinja
