// SPDX-License-Identifier: MIT
// Division of a range into nearly equal, consecutive parts. C++17, for nvcc.
#pragma once

#include <cstdint>

namespace mnemon {

// [begin, end).
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr int64_t size() const { return end - begin; }
};

// Part number `part` of `parts` of 0 .. count-1. The first is empty only if all are.
constexpr Part PartOf(int64_t count, int64_t part, int64_t parts) {
  return {(count * part + parts - 1) / parts, (count * (part + 1) + parts - 1) / parts};
}

}  // namespace mnemon
