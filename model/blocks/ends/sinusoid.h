// SPDX-License-Identifier: MIT
// The sinusoids of "Attention Is All You Need" (section 3.5), without torch:
//   PE[t, 2i] = sin(t w_i), PE[t, 2i+1] = cos(t w_i), w_i = exp(-2i ln(10000) / D)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/compute/kernels.h"

namespace mnemon {

// Row `position` of the table with D = row.size().
void SinusoidRow(int64_t position, std::span<double> row);

// Rows 0 .. positions-1 without a sine: by the sum of angles from two short tables,
// within 1e-12 of SinusoidRow. Constant after construction.
class SinusoidTable {
 public:
  SinusoidTable(int64_t positions, int64_t width);

  // As of EmbedCall.
  SinusoidView view() const {
    return {.coarse = coarse_.data(),
            .fine = fine_.data(),
            .stride = kStride,
            .turns = (width_ + 1) / 2 * 2};
  }

  // What the view points to.
  std::span<const double> coarse() const { return coarse_; }
  std::span<const double> fine() const { return fine_; }

 private:
  static constexpr int64_t kStride = 256;

  int64_t width_;
  // Sine and cosine per frequency: of positions 0, 256, 512 .. and of 0 .. 255.
  std::vector<double> coarse_, fine_;
};

}  // namespace mnemon
