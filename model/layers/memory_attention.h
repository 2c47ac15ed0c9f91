// SPDX-License-Identifier: MIT
// Attention of one query per row over a list of rows, as one node of the graph. With one
// query, products of ATen operations are bound by their number (a dozen small ones per
// layer and token, forward and backward); this is two passes over the list each way.
#pragma once

#include <ATen/core/Tensor.h>

namespace mnemon {

// a = softmax_j(q.k_j + bias_j), o = sum_j mask_j a_j v_j, with gradients of all but the
// mask (not differentiable twice). float or double, on the CPU.
//   q [R, K], bias [R, n], keys and values [R, n, K] (K contiguous, equal strides),
//   mask [R, n] or undefined  ->  o [R, K]
at::Tensor AttendToRows(const at::Tensor& q, const at::Tensor& bias,
                        const at::Tensor& keys, const at::Tensor& values,
                        const at::Tensor& mask);

}  // namespace mnemon
