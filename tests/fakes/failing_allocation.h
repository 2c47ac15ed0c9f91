// SPDX-License-Identifier: MIT
// A replacement of operator new, of which one allocation fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace mnemon {

// Allocations of the threads that take part until one fails; 0 or less: none fails.
extern std::atomic<int64_t> countdown;
extern thread_local bool takes_part;  // true at first
// Where it is set: whether an allocation of the present thread counts, of which
// `caller` is the return address of operator new. Must not allocate.
extern std::atomic<bool (*)(void* caller)> may_fail;

}  // namespace mnemon
