// SPDX-License-Identifier: MIT
// Positions without weights of their own: the sinusoids of "Attention Is All You Need"
// (section 3.5) and the linear biases of "Train Short, Test Long" (Press, Smith, Lewis,
// 2021, section 3).
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mnemon {

// Rows first .. first+count-1 of the sinusoid table, [count, D]:
//   PE[t, 2i] = sin(t w_i), PE[t, 2i+1] = cos(t w_i), w_i = exp(-2i ln(10000) / D)
// Computed in double on the CPU, rounded to the type of `options`.
at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width,
                    const at::TensorOptions& options);

// The bias of attention scores, -slope_h |i - j|, before and behind the query alike.
// Query i of T stands at key J-T+i. [H, T, J].
at::Tensor AlibiBias(int64_t heads, int64_t queries, int64_t keys,
                     const at::TensorOptions& options);

// That bias for every sequence of a batch, plus `mask` ([T, J], [H*B, T, J] or
// undefined). [H*B, T, J].
at::Tensor MaskedAlibiBias(int64_t heads, int64_t batch, int64_t queries, int64_t keys,
                           const at::Tensor& mask, const at::TensorOptions& options);

}  // namespace mnemon
