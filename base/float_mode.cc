// SPDX-License-Identifier: MIT
#include "base/float_mode.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace mnemon {
namespace {

#if defined(__SSE2__)
// MXCSR: flush-to-zero, the direction of rounding, denormals-are-zero.
constexpr uint64_t kModeBits = 0x8000 | 0x6000 | 0x0040;
uint64_t ReadMode() { return _mm_getcsr(); }
void WriteMode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
// FPCR: FZ, RMode, FIZ.
constexpr uint64_t kModeBits = (uint64_t{7} << 22) | 1;
uint64_t ReadMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void WriteMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
#error "no way known to read the floating-point mode of this processor"
#endif

}  // namespace

IeeeFloatMode::IeeeFloatMode() : before_(ReadMode()) {
  if ((before_ & kModeBits) != 0) WriteMode(before_ & ~kModeBits);
}

IeeeFloatMode::~IeeeFloatMode() {
  if ((before_ & kModeBits) != 0) WriteMode(before_);
}

}  // namespace mnemon
