// SPDX-License-Identifier: MIT
// Functions of templates: range, dict, namespace, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/runtime.h"
#include "model/text/jinja/value.h"

namespace mnemon::jinja {

// range(start, stop, step). REQUIRES: step is not 0.
absl::StatusOr<Value> NewRange(Runtime& runtime, int64_t start, int64_t stop,
                               int64_t step);

bool IsFunction(std::string_view name);
// raise_exception returns INVALID_ARGUMENT with reason TEMPLATE_RAISED. REQUIRES:
// IsFunction(name).
absl::StatusOr<Value> CallFunction(Runtime& runtime, std::string_view name,
                                   const Arguments& arguments);

}  // namespace mnemon::jinja
