// SPDX-License-Identifier: MIT
// The sinusoids of "Attention Is All You Need" (section 3.5), without torch:
//   PE[t, 2i] = sin(t w_i), PE[t, 2i+1] = cos(t w_i), w_i = exp(-2i ln(10000) / D)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mnemon {

// Row `position` of the table with D = row.size().
void SinusoidRow(int64_t position, std::span<double> row);

// w_i of a table of D columns.
std::vector<double> SinusoidFrequencies(int64_t width);

}  // namespace mnemon
