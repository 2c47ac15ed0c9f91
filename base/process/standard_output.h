// SPDX-License-Identifier: MIT
// A checked, unbuffered write to standard output.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace mnemon {

// Writes `text` to standard output at once. UNAVAILABLE with the system's reason: the
// disk is full, or the reader has closed its end.
absl::Status WriteStandardOutput(std::string_view text);

}  // namespace mnemon
