// SPDX-License-Identifier: MIT
// Makes the tree of a template. Tags, filters, tests, functions and methods that are
// not known are refused here, wherever their name is written down.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "model/text/jinja/tree.h"

namespace mnemon::jinja {

// INVALID_ARGUMENT, or RESOURCE_EXHAUSTED where it is nested too deep, with the line.
// REQUIRES: valid UTF-8 within kMaxSourceBytes.
absl::StatusOr<Tree> ParseTree(std::string_view source);

}  // namespace mnemon::jinja
