// SPDX-License-Identifier: MIT
// Sums and norms in the order of kernels.h, for plain loops over the equations.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "model/compute/kernels.h"

namespace mnemon::reference {

// 16 interleaved partial sums of f(0) .. f(count-1), then a tree.
template <class Function>
float Sum(int64_t count, const Function& f) {
  std::array<float, 16> lane = {};
  for (int64_t i = 0; i < count; ++i) lane[i % 16] = f(i, lane[i % 16]);
  for (int apart = 8; apart > 0; apart /= 2) {
    for (int i = 0; i < apart; ++i) lane[i] += lane[i + apart];
  }
  return lane[0];
}

inline float Dot(const float* a, const float* b, int64_t count) {
  return Sum(count, [&](int64_t i, float sum) { return std::fma(a[i], b[i], sum); });
}

// `out` may be `in`.
inline void NormRow(const float* in, int64_t width, const NormView& norm, float* out) {
  const float count = static_cast<float>(width);
  const float mean =
      norm.centred ? Sum(width, [&](int64_t i, float s) { return s + in[i]; }) / count
                   : 0.0f;
  const float squares = Sum(width, [&](int64_t i, float s) {
    return std::fma(in[i] - mean, in[i] - mean, s);
  });
  const float scale = 1.0f / std::sqrt(squares / count + norm.eps);
  for (int64_t i = 0; i < width; ++i) {
    out[i] = std::fma((in[i] - mean) * scale, norm.gain[i], norm.bias[i]);
  }
}

}  // namespace mnemon::reference
