// SPDX-License-Identifier: MIT
// Absolute positions, after "Attention Is All You Need", section 3.5.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mnemon {

// Rows first .. first+count-1 of the sinusoid table, [count, D]:
//   PE[t, 2i] = sin(t w_i), PE[t, 2i+1] = cos(t w_i), w_i = exp(-2i ln(10000) / D)
// Computed in double, rounded to `type`.
at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width, at::ScalarType type);

}  // namespace mnemon
