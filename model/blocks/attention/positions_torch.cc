// SPDX-License-Identifier: MIT
#include "model/blocks/attention/positions_torch.h"

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/tensor.h>

#include "model/blocks/attention/alibi.h"
#include "model/blocks/attention/attend_torch.h"
#include "model/compute/functions.h"

namespace mnemon {

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

at::Tensor Turned(const Rotary& rotary, const at::Tensor& x, int64_t position) {
  const std::vector<double> frequencies = FrequenciesOf(rotary);
  const auto half = static_cast<int64_t>(frequencies.size()), time = x.size(1);
  at::Tensor angles = at::empty({2, time, 1, half}, at::kDouble);
  double* const cosines = angles.data_ptr<double>();
  double* const sines = cosines + time * half;
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position + t) * frequencies[static_cast<size_t>(i)];
      cosines[t * half + i] = numerics::Cos(angle) * rotary.magnitude;
      sines[t * half + i] = numerics::Sin(angle) * rotary.magnitude;
    }
  }
  angles = angles.to(x.options());
  const at::Tensor low = x.narrow(-1, 0, half), high = x.narrow(-1, half, half);
  const at::Tensor rest = x.narrow(-1, 2 * half, x.size(-1) - 2 * half);
  return at::cat(
      {low * angles[0] - high * angles[1], high * angles[0] + low * angles[1], rest},
      -1);
}

RelativeQuery AddRelativePositions(const at::Tensor& q, const RelativeTables& tables,
                                   RelativeReach reach, int64_t keys,
                                   const at::Tensor& mask) {
  const int64_t first = reach.zero_row - reach.farthest, count = reach.farthest + 1;
  const at::Tensor relative = RelativeScores(q, tables.key.narrow(0, first, count),
                                             tables.bias.narrow(0, first, count), keys);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  const int64_t batch = q.size(0) / tables.query_bias.size(0);
  const at::Tensor u =
      at::repeat_interleave(tables.query_bias, batch, 0).unsqueeze(1);  // [H*B, 1, K]
  return {.q = q + u,
          .bias = mask.defined() ? at::add(mask, relative, scale) : relative * scale};
}

}  // namespace mnemon
