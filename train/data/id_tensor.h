// SPDX-License-Identifier: MIT
// Token ids as a tensor.
#pragma once

#include <cstdint>
#include <cstring>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

namespace mnemon {

// A copy of ids[rows * columns] as a tensor [rows, columns].
inline at::Tensor IdTensor(const int64_t* ids, int64_t rows, int64_t columns) {
  at::Tensor tensor = at::empty({rows, columns}, at::kLong);
  std::memcpy(tensor.data_ptr<int64_t>(), ids, rows * columns * sizeof(int64_t));
  return tensor;
}

}  // namespace mnemon
