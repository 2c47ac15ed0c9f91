// SPDX-License-Identifier: MIT
// Drawn numbers and how far results are apart. A library of their own, which is
// optimised: tests of kernels draw and compare millions.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

// In [-size, size).
std::vector<float> Drawn(int64_t count, uint32_t seed, float size = 1.0f);

// max |a - b| / (1 + max |b|); infinite where one is not a number or the sizes differ.
float Difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace mnemon
