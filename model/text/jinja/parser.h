// SPDX-License-Identifier: MIT
// Parser of templates. Unknown tags, filters, tests, functions and methods are refused
// here if the template names them literally.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/tree.h"

namespace mnemon::jinja {

// INVALID_ARGUMENT with the line, or RESOURCE_EXHAUSTED if nested too deep. REQUIRES:
// valid UTF-8 of at most kMaxSourceBytes.
absl::StatusOr<Tree> ParseTree(std::string_view source);

}  // namespace mnemon::jinja
