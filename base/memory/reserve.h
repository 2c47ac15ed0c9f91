// SPDX-License-Identifier: MIT
// Reservation in a vector that grows repeatedly.
#pragma once

#include <algorithm>
#include <cstddef>

namespace mnemon {

// Makes room for `count` elements. Grows at least twofold, so that repeated additions
// do not move all elements each time.
template <class Vector>
void ReserveAtLeast(Vector& vector, size_t count) {
  if (count > vector.capacity()) vector.reserve(std::max(count, 2 * vector.capacity()));
}

}  // namespace mnemon
