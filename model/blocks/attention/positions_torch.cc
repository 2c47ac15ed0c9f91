// SPDX-License-Identifier: MIT
#include "model/blocks/attention/positions_torch.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/tensor.h>

#include "model/blocks/attention/alibi.h"
#include "model/blocks/attention/attend_torch.h"

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
