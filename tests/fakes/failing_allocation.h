// SPDX-License-Identifier: MIT
// A replacement of operator new that fails once.
#pragma once

#include <atomic>
#include <cstdint>

namespace mnemon {

// Allocations of the participating threads until one fails; 0 or less: none fails.
extern std::atomic<int64_t> countdown;
extern thread_local bool takes_part;  // true at first
// If set: whether an allocation of the current thread counts; `caller` is the return
// address of operator new. Must not allocate.
extern std::atomic<bool (*)(void* caller)> may_fail;

}  // namespace mnemon
