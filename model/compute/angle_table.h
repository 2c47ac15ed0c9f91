// SPDX-License-Identifier: MIT
// Sines and cosines of position times frequency for all positions of a context,
// computed with the sum of angles from two short tables in binary64: within 2e-11 of
// the exact numbers up to position 131,072 at frequencies of at most 1
// (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/compute/kernels.h"

namespace mnemon {

// Immutable after construction.
class AngleTable {
 public:
  // For positions 0 .. positions-1.
  AngleTable(int64_t positions, const std::vector<double>& frequencies);

  // The view points into the table.
  AngleView view() const {
    return {.coarse = coarse_.data(),
            .fine = fine_.data(),
            .stride = kStride,
            .turns = turns_};
  }
  std::span<const double> coarse() const { return coarse_; }
  std::span<const double> fine() const { return fine_; }

 private:
  static constexpr int64_t kStride = 256;

  int64_t turns_;
  // Sine and cosine per frequency: at positions 0, 256, 512 .. and at 0 .. 255.
  std::vector<double> coarse_, fine_;
};

}  // namespace mnemon
