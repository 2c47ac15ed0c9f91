// SPDX-License-Identifier: MIT
// Bytes that the program itself requests: resident memory also counts what an allocator
// keeps and the shadow of a sanitizer.
#pragma once

#include <cstdint>

namespace mnemon {

// HeapPeak returns the largest amount allocated by operator new since StartHeapPeak, in
// usable sizes, minus what was allocated then. Threads may allocate meanwhile; one
// thread asks.
void StartHeapPeak();
int64_t HeapPeak();

}  // namespace mnemon
