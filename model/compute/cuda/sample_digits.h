// SPDX-License-Identifier: MIT
// Sums of integers by a digit of their keys. All threads of a block call it. C++17.
#pragma once

#include <cstdint>

#include "model/compute/cuda/device.h"

namespace mnemon::device {

inline constexpr int kDigitBits = 11;
inline constexpr int32_t kDigits = 1 << kDigitBits;

// A sum per digit, in shared memory, to which many threads add.
class DigitSums {
 public:
  // A barrier must come before and after Clear.
  MNEMON_DEVICE void Clear() {
    for (int32_t d = ThreadIndex(); d < kDigits; d += ThreadCount())
      low_[d] = high_[d] = 0;
  }
  // In two halves: 64-bit atomic sums in shared memory compile to loops.
  MNEMON_DEVICE void Add(uint32_t digit, uint64_t number) {
    if (number == 0) return;
    const auto part = static_cast<uint32_t>(number);
    const uint32_t carry = AtomicAdd(&low_[digit], part) + part < part ? 1 : 0;
    const uint32_t upper = static_cast<uint32_t>(number >> 32) + carry;
    if (upper > 0) AtomicAdd(&high_[digit], upper);
  }
  MNEMON_DEVICE uint64_t Of(int32_t digit) const {
    return uint64_t{high_[digit]} << 32 | low_[digit];
  }

 private:
  uint32_t low_[kDigits], high_[kDigits];
};

}  // namespace mnemon::device
