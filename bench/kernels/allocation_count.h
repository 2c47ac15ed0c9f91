// SPDX-License-Identifier: MIT
// Count of the heap allocations of this process. allocation_count.cc replaces the
// system's malloc: link it into a binary of its own, never into a library. Under a
// sanitizer, which replaces malloc as well, all counts are 0.
#pragma once

#include <cstdint>

namespace mnemon {

struct AllocationCount {
  int64_t calls = 0;  // malloc, calloc, realloc, aligned ones, and all forms of new
  int64_t bytes = 0;  // requested

  friend AllocationCount operator-(AllocationCount a, AllocationCount b) {
    return {.calls = a.calls - b.calls, .bytes = a.bytes - b.bytes};
  }
};

// False under a sanitizer.
bool CountsAllocations();

// Allocations since the process started, over all threads. Safe for concurrent use.
AllocationCount CountAllocations();
// Allocations of the calling thread.
AllocationCount CountAllocationsOfThread();

}  // namespace mnemon
