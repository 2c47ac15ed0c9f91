// SPDX-License-Identifier: MIT
// Exact shares of sums of fixed-point weights.
#pragma once

#include <cmath>
#include <cstdint>

namespace mnemon {

// The fixed-point weight 1: weights are multiples of 2^-40.
inline constexpr uint64_t kWeightOne = uint64_t{1} << 40;

// The least integer >= share * total. REQUIRES: share in [0, 1].
inline uint64_t CeilOfShare(float share, uint64_t total) {
  int exponent = 0;
  const float fraction = std::frexp(share, &exponent);
  const auto number = static_cast<uint64_t>(fraction * 0x1p24f);
  const unsigned __int128 product = static_cast<unsigned __int128>(number) * total;
  const int shift = 24 - exponent;  // at least 23
  // The product is below 2^88.
  if (shift > 100) return product > 0 ? 1 : 0;
  const unsigned __int128 rest = (static_cast<unsigned __int128>(1) << shift) - 1;
  return static_cast<uint64_t>((product + rest) >> shift);
}

// The integer part of (random / 2^64) * total.
inline uint64_t FloorOfFraction(uint64_t random, uint64_t total) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * total) >> 64);
}

}  // namespace mnemon
