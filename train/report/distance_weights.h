// SPDX-License-Identifier: MIT
// Attention weights by the distance between query and key.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mnemon {

// The mean weight at each distance 0 .. J-1, over the queries that have a key there.
// weights [T, J], row-major; query i is at the position of key J-T+i. J = `keys`.
// REQUIRES: J >= T >= 1.
std::vector<double> MeanByDistance(std::span<const float> weights, int64_t keys);

}  // namespace mnemon
