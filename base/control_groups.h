// SPDX-License-Identifier: MIT
// The limits that the system sets to this process by control groups, of version 1, 2 or
// both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mnemon {

// Of the groups that the process is in and all groups above them that it can see, the
// smallest; absent: none is set.
struct GroupLimits {
  std::optional<double> cores;  // processor time in a period, by the period
  std::optional<int64_t> memory_bytes;
};

// Reads what the system shows below `root`, in proc/ and where proc/self/mountinfo
// says; empty: the machine's own. What cannot be read sets no limit.
GroupLimits ReadGroupLimits(const std::string& root = "");

// What this process may use of the machine's memory: all of it, or less where a group
// has a limit.
int64_t UsableMemory(const GroupLimits& limits = ReadGroupLimits());

}  // namespace mnemon
