// SPDX-License-Identifier: MIT
// A non-negative amount that saturates at the greatest number instead of overflowing.
#pragma once

#include <cstdint>
#include <limits>

namespace mnemon {

class Saturating {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  Saturating(int64_t value) : value_(value) {}
  int64_t value() const { return value_; }

  friend Saturating operator*(Saturating a, Saturating b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? kMost : product;
  }
  friend Saturating operator+(Saturating a, Saturating b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? kMost : sum;
  }
  Saturating& operator+=(Saturating other) { return *this = *this + other; }

 private:
  int64_t value_;
};

}  // namespace mnemon
