// SPDX-License-Identifier: MIT
// Reservation of room in a vector that grows again and again.
#pragma once

#include <algorithm>
#include <cstddef>

namespace mnemon {

// Room for `count` elements. Grows at least twofold, so that one more again and again
// does not move all of them each time.
template <class Vector>
void ReserveAtLeast(Vector& vector, size_t count) {
  if (count > vector.capacity()) vector.reserve(std::max(count, 2 * vector.capacity()));
}

}  // namespace mnemon
