// SPDX-License-Identifier: MIT
// Random numbers and the distance of results. A library of its own, which is optimised:
// tests of kernels draw and compare millions.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

// Numbers in [-size, size).
std::vector<float> Drawn(int64_t count, uint32_t seed, float size = 1.0f);

// max |a - b| / (1 + max |b|); infinite if one is not a number or the sizes differ.
float Difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace mnemon
