// SPDX-License-Identifier: MIT
// Count of the mutexes that a thread locks. lock_count.cc replaces the system's
// function: link it into a binary of its own, never into a library. Under a sanitizer,
// which replaces it as well, all counts are 0.
#pragma once

#include <cstdint>

namespace mnemon {

// Locks of the calling thread since it started.
int64_t CountLocks();

}  // namespace mnemon
