// SPDX-License-Identifier: MIT
// Heap allocations of this process. allocation_count.cc puts itself in front of the
// system's malloc: link it into a binary of its own, never into a library. Under a
// sanitizer, which does the same, everything counts as 0.
#pragma once

#include <cstdint>

namespace mnemon {

struct AllocationCount {
  int64_t calls = 0;  // malloc, calloc, realloc, aligned ones, and all forms of new
  int64_t bytes = 0;  // asked for

  friend AllocationCount operator-(AllocationCount a, AllocationCount b) {
    return {.calls = a.calls - b.calls, .bytes = a.bytes - b.bytes};
  }
};

// False under a sanitizer.
bool CountsAllocations();

// Since the process started, over all threads. Safe for concurrent use.
AllocationCount CountAllocations();

}  // namespace mnemon
