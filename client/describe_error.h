// SPDX-License-Identifier: MIT
#pragma once

#include "absl/status/status.h"

namespace mnemon::client {

// The same error with everything a person can act on in its text, on one line:
// "text (INVALID_ARGUMENT, INVALID_VALUE, field sampling.temperature)".
absl::Status Described(const absl::Status& status);

}  // namespace mnemon::client
