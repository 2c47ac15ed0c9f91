// SPDX-License-Identifier: MIT
// The bytes that the program itself asks for: resident memory also counts what an
// allocator keeps and what a sanitizer writes beside every byte.
#pragma once

#include <cstdint>

namespace mnemon {

// From StartHeapPeak on, HeapPeak returns how much more was allocated at once by
// operator new than at the start, at its usable size. Threads may allocate meanwhile;
// one thread asks.
void StartHeapPeak();
int64_t HeapPeak();

}  // namespace mnemon
