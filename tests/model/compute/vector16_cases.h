// SPDX-License-Identifier: MIT
// The functions of vector16-inl.h of one target, on arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace mnemon {

struct TargetFunctions {
  using Map = void(const float* in, float* out, int64_t count);

  const char* name;
  void (*fma)(const float* a, const float* b, const float* c, float* out,
              int64_t count);
  Map* exp;
  Map* sigmoid;
  Map* gelu;
  Map* tanh;
  Map* flush;
};

}  // namespace mnemon
