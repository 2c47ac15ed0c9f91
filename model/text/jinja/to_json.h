// SPDX-License-Identifier: MIT
// The filter tojson, which is Python's json.dumps, and the conversion of JSON to
// values.
#pragma once

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"
#include "nlohmann/json_fwd.hpp"

namespace mnemon::jinja {

// Arguments: ensure_ascii, indent, separators, sort_keys.
absl::StatusOr<Value> ToJson(Runtime& runtime, const Value& value,
                             const Arguments& arguments);

// REQUIRES: limited nesting; strings are UTF-8.
absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json, int depth = 0);

}  // namespace mnemon::jinja
