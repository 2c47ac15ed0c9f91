// SPDX-License-Identifier: MIT
// Limits of this process by control groups of version 1, 2 or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mnemon {

// The smallest limit over the groups of the process and all their visible ancestors;
// absent: no limit.
struct GroupLimits {
  std::optional<double> cores;  // processor time per period, in cores
  std::optional<int64_t> memory_bytes;
};

// Reads the system's files below `root`, in proc/ and at the places named in
// proc/self/mountinfo; empty: the machine's own. What cannot be read sets no limit.
GroupLimits ReadGroupLimits(const std::string& root = "");

// Memory of the machine that this process may use: all of it, or less if a group has a
// limit.
int64_t UsableMemory(const GroupLimits& limits = ReadGroupLimits());

}  // namespace mnemon
