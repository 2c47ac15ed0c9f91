// SPDX-License-Identifier: MIT
// Bytes that the allocator uses for an object, including its own word and rounding, as
// in glibc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace mnemon {

constexpr int64_t HeapBytes(int64_t bytes) {
  return std::max<int64_t>(32, (bytes + 8 + 15) / 16 * 16);
}

// For an object made by std::make_shared.
constexpr int64_t SharedHeapBytes(int64_t bytes) { return HeapBytes(bytes + 16); }

// Bytes outside of the string object: none for a short text.
inline int64_t TextHeapBytes(const std::string& text) {
  return text.capacity() < sizeof(std::string) / 2
             ? 0
             : HeapBytes(static_cast<int64_t>(text.capacity()) + 1);
}

}  // namespace mnemon
