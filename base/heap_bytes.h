// SPDX-License-Identifier: MIT
// What the allocator takes for an object: its own word and the rounding included, as
// glibc has them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace mnemon {

constexpr int64_t HeapBytes(int64_t bytes) {
  return std::max<int64_t>(32, (bytes + 8 + 15) / 16 * 16);
}

// Of an object that std::make_shared makes.
constexpr int64_t SharedHeapBytes(int64_t bytes) { return HeapBytes(bytes + 16); }

// Beside the string object: a short text lies within it.
inline int64_t TextHeapBytes(const std::string& text) {
  return text.capacity() < sizeof(std::string) / 2
             ? 0
             : HeapBytes(static_cast<int64_t>(text.capacity()) + 1);
}

}  // namespace mnemon
