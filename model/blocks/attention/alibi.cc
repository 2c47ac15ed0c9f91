// SPDX-License-Identifier: MIT
#include "model/blocks/attention/alibi.h"

#include <bit>

#include "model/compute/functions.h"

namespace mnemon {

std::vector<double> AlibiSlopes(int64_t heads) {
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t h = 1; h <= lower; ++h)
    slopes.push_back(
        numerics::Exp2(-8.0 * static_cast<double>(h) / static_cast<double>(lower)));
  for (int64_t h = 1; h <= heads - lower; ++h) {
    slopes.push_back(numerics::Exp2(-4.0 * static_cast<double>(2 * h - 1) /
                                    static_cast<double>(lower)));
  }
  return slopes;
}

}  // namespace mnemon
