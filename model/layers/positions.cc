// SPDX-License-Identifier: MIT
#include "model/layers/positions.h"

#include <bit>
#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

namespace mnemon {

at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width,
                    const at::TensorOptions& options) {
  std::vector<double> frequency((width + 1) / 2);
  for (size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::exp(-2.0 * static_cast<double>(i) * std::log(10000.0) /
                            static_cast<double>(width));
  }
  at::Tensor table = at::empty({count, width}, at::kDouble);
  double* out = table.data_ptr<double>();
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      const double angle = static_cast<double>(first + t) * frequency[d / 2];
      *out++ = d % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table.to(options);
}

std::vector<double> AlibiSlopes(int64_t heads) {
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t h = 1; h <= lower; ++h) slopes.push_back(std::exp2(-8.0 * h / lower));
  for (int64_t h = 1; h <= heads - lower; ++h) {
    slopes.push_back(std::exp2(-4.0 * (2 * h - 1) / lower));
  }
  return slopes;
}

at::Tensor AlibiBias(int64_t heads, int64_t queries, int64_t keys,
                     const at::TensorOptions& options) {
  const at::Tensor slope = at::tensor(AlibiSlopes(heads), options).view({heads, 1, 1});
  const at::Tensor query = at::arange(keys - queries, keys, options).unsqueeze(1);
  return slope * -(at::arange(keys, options) - query).abs();
}

at::Tensor MaskedAlibiBias(int64_t heads, int64_t batch, int64_t queries, int64_t keys,
                           const at::Tensor& mask, const at::TensorOptions& options) {
  const at::Tensor bias = AlibiBias(heads, queries, keys, options)
                              .unsqueeze(1)
                              .expand({heads, batch, queries, keys})
                              .reshape({heads * batch, queries, keys});
  return mask.defined() ? bias + mask : bias;
}

}  // namespace mnemon
