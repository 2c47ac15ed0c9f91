// SPDX-License-Identifier: MIT
#include "model/layers/positions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "model/positions/alibi.h"
#include "model/positions/sinusoid.h"

namespace mnemon {

at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width,
                    const at::TensorOptions& options) {
  at::Tensor table = at::empty({count, width}, at::kDouble);
  double* out = table.data_ptr<double>();
  for (int64_t t = 0; t < count; ++t) {
    SinusoidRow(first + t, {out + t * width, static_cast<size_t>(width)});
  }
  return table.to(options);
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
