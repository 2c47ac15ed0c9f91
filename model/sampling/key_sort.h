// SPDX-License-Identifier: MIT
// A sort of token ids by a floating-point key in linear time.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

struct KeyedId {
  double key = 0;  // not NaN
  int32_t id = 0;
};

// Sorts by rising keys, equal keys by rising ids; -0 equals 0. `spare` is scratch.
// Allocates only while `spare` grows. REQUIRES: the ids rise.
void SortByKey(std::vector<KeyedId>& entries, std::vector<KeyedId>& spare);

}  // namespace mnemon
