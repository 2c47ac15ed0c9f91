// SPDX-License-Identifier: MIT
// The floating-point mode for which bits are defined (docs/numerics.md).
#pragma once

#include <cstdint>

namespace mnemon {

// During its lifetime this thread rounds to nearest and computes with subnormal
// numbers; the destructor restores the previous mode. A library may set another mode
// for the thread that loads it, and new threads inherit it.
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
