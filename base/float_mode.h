// SPDX-License-Identifier: MIT
// The floating-point mode that bits are defined in (docs/numerics.md).
#pragma once

#include <cstdint>

namespace mnemon {

// While it lives, this thread rounds to nearest and computes with subnormal numbers,
// whatever mode it came with, which is restored afterwards. A library may set
// another one for the thread that loads it, and new threads inherit it.
class IeeeFloatMode {
 public:
  IeeeFloatMode();
  ~IeeeFloatMode();
  IeeeFloatMode(const IeeeFloatMode&) = delete;
  IeeeFloatMode& operator=(const IeeeFloatMode&) = delete;

 private:
  const uint64_t before_;
};

}  // namespace mnemon
