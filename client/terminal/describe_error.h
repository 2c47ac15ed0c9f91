// SPDX-License-Identifier: MIT
// The details of an error as text for people.
#pragma once

#include "absl/status/status.h"

namespace mnemon::client {

// The same error with code, reason, field and retry delay in its text, on one line:
// "text (INVALID_ARGUMENT, INVALID_VALUE, field sampling.temperature)".
absl::Status Described(const absl::Status& status);

}  // namespace mnemon::client
