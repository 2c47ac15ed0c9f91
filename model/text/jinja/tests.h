// SPDX-License-Identifier: MIT
// Tests: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

bool IsTest(std::string_view name);
// INVALID_ARGUMENT names an unknown test.
absl::StatusOr<bool> ApplyTest(Runtime& runtime, std::string_view name,
                               const Value& value, const Arguments& arguments);

}  // namespace mnemon::jinja
