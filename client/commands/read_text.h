// SPDX-License-Identifier: MIT
// The text of a file or of standard input.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon::client {

// Reads a whole file, "-" = standard input. INVALID_ARGUMENT if it exceeds `max_bytes`.
absl::StatusOr<std::string> ReadText(const std::string& path, size_t max_bytes);

}  // namespace mnemon::client
