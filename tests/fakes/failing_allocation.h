// SPDX-License-Identifier: MIT
// A replacement of operator new, of which one allocation fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace mnemon {

// Allocations of the threads that take part until one fails; 0 or less: none fails.
extern std::atomic<int64_t> countdown;
extern thread_local bool takes_part;  // true at first

}  // namespace mnemon
