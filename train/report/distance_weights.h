// SPDX-License-Identifier: MIT
// Attention weights by how far back they look.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mnemon {

// For each distance 0 .. J-1 the mean over the queries that can look so far back.
//   weights [T, J], row-major; query i stands at key J-T+i. REQUIRES: J >= T >= 1.
std::vector<double> MeanByDistance(std::span<const float> weights, int64_t keys);

}  // namespace mnemon
