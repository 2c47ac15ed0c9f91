// SPDX-License-Identifier: MIT
// Results that go out as they come.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace mnemon {

// Writes `text` to standard output at once. UNAVAILABLE with the system's reason: the
// disk is full, or nobody reads any more.
absl::Status WriteStandardOutput(std::string_view text);

}  // namespace mnemon
