// SPDX-License-Identifier: MIT
// Arithmetic of sampling on a device (docs/numerics.md, Sampling): keys, weights, exact
// shares of their sums, random bits, the logarithm. Each runs in one thread. C++17.
#pragma once

#include <cstdint>
#include <cstring>

#include "model/compute/cuda/numbers.h"

namespace mnemon::device {

// The fixed-point weight 1: weights are multiples of 2^-40.
inline constexpr uint64_t kWeightOne = uint64_t{1} << 40;

MNEMON_DEVICE uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Ascends as the logit falls; -0 equals 0. Above 0 for finite logits.
MNEMON_DEVICE uint32_t FallingKey(float logit) {
  const uint32_t bits = BitsOf(logit + 0.0f);
  return bits >> 31 != 0 ? bits : bits ^ 0x7FFFFFFFu;
}

// Weight of a logit.
struct WeightScale {
  float most = 0;  // the largest logit
  float temperature = 1;

  MNEMON_DEVICE float Exponent(float logit) const {
    return Divide(logit - most, temperature);
  }
  MNEMON_DEVICE uint64_t Weight(float logit) const;
};

// The integer part of e x 2^40, e in [0, 1]; e's bits are an integer times a power of
// two.
MNEMON_DEVICE uint64_t FixedPoint(float e) {
  const uint32_t bits = BitsOf(e);
  const uint64_t number = (bits & 0x7FFFFFu) | 0x800000u;
  return number << 17 >> Smaller(127u - (bits >> 23), 63u);
}

MNEMON_DEVICE uint64_t WeightScale::Weight(float logit) const {
  return FixedPoint(Exp(Exponent(logit)));
}

// The least integer >= share * total. REQUIRES: share in [0, 1].
MNEMON_DEVICE uint64_t CeilOfShare(float share, uint64_t total) {
  const uint32_t bits = BitsOf(share), exponent = bits >> 23;
  const uint32_t digits = bits & 0x7FFFFFu;
  const auto product =
      static_cast<unsigned __int128>(exponent == 0 ? digits : digits | 0x800000u) *
      total;
  const uint32_t shift = exponent == 0 ? 149u : 150u - exponent;  // at least 23
  // The product is below 2^88.
  if (shift > 100) return product > 0 ? 1 : 0;
  const unsigned __int128 rest = (static_cast<unsigned __int128>(1) << shift) - 1;
  return static_cast<uint64_t>((product + rest) >> shift);
}

// The integer part of (random / 2^64) * total.
MNEMON_DEVICE uint64_t FloorOfFraction(uint64_t random, uint64_t total) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * total) >> 64);
}

// The first two words of Philox4x32-10, the first of them low: key = seed, counter =
// index, its upper two words 0.
MNEMON_DEVICE uint64_t RandomAt(uint64_t seed, uint64_t index) {
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  auto c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = 0, c3 = 0;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return uint64_t{c1} << 32 | c0;
}

// Same as in model/compute/functions.h. REQUIRES: x positive, finite, not subnormal.
MNEMON_DEVICE double Log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  int exponent = static_cast<int>(bits >> 52) - 1022;
  bits = (bits & 0xFFFFFFFFFFFFFu) | uint64_t{1022} << 52;
  double fraction;  // in [1/2, 1)
  memcpy(&fraction, &bits, sizeof(fraction));
  if (fraction < 0x1.6a09e667f3bcdp-1) {
    fraction *= 2;
    --exponent;
  }
  const double s = (fraction - 1) / (fraction + 1);
  const double square = s * s;
  double sum = 0;
  for (int n = 23; n >= 3; n -= 2) sum = square * (1.0 / n + sum);
  return exponent * 0x1.62e42feep-1 +
         (2 * s * sum + exponent * 0x1.a39ef35793c76p-33 + 2 * s);
}

}  // namespace mnemon::device
