// SPDX-License-Identifier: MIT
// The metadata of a snapshot: the JSON in its header, and the rules that hold for what
// is in it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/snapshots/snapshot.h"

namespace mnemon {

// Everything of `header` but the two sizes. INVALID_ARGUMENT names the member.
absl::Status CheckMetadata(const SnapshotHeader& header);

// Floats of all entries. REQUIRES: checked.
int64_t StateFloats(const SnapshotHeader& header);

// Without the two sizes. REQUIRES: checked.
std::string FormatMetadata(const SnapshotHeader& header);

// The inverse, strict, and then checked; without the two sizes. INVALID_ARGUMENT.
absl::StatusOr<SnapshotHeader> ParseMetadata(std::string_view text);

}  // namespace mnemon
