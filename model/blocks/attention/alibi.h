// SPDX-License-Identifier: MIT
// The slopes of linear position biases (ALiBi), without torch.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

// Slope of each head ("Train Short, Test Long", Press, Smith, Lewis, 2021, section 3):
// 2^(-8h/H), h = 1..H, if H is a power of two; otherwise those of the next lower power
// of two, then every other one of the next higher.
std::vector<double> AlibiSlopes(int64_t heads);

}  // namespace mnemon
