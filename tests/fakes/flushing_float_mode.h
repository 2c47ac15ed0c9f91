// SPDX-License-Identifier: MIT
// The floating-point mode of libraries that were built for speed.
#pragma once

#include <cstdint>
#include <limits>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace mnemon {

// Whether this thread computes with subnormal numbers, as operands and as results.
inline bool ComputesSubnormals() {
  volatile float least = std::numeric_limits<float>::min();
  volatile float half = least / 2;
  volatile float doubled = half * 2;
  return doubled == least;
}

// While it lives, this thread and those that it makes flush subnormal numbers to zero.
class FlushingFloatMode {
 public:
#if defined(__SSE2__)
  FlushingFloatMode() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushingFloatMode() { _mm_setcsr(before_); }
#else
  FlushingFloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | uint64_t{1} << 24));
  }
  ~FlushingFloatMode() { asm volatile("msr fpcr, %0" : : "r"(before_)); }
#endif
  FlushingFloatMode(const FlushingFloatMode&) = delete;
  FlushingFloatMode& operator=(const FlushingFloatMode&) = delete;

 private:
#if defined(__SSE2__)
  unsigned before_;
#else
  uint64_t before_;
#endif
};

}  // namespace mnemon
