// SPDX-License-Identifier: MIT
#include "model/blocks/attention/attend_torch.h"

#include <cmath>
#include <limits>
#include <utility>

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

namespace mnemon {

at::Tensor SplitHeads(const at::Tensor& x, int64_t heads) {
  const int64_t batch = x.size(0), time = x.size(1), width = x.size(2) / heads;
  return x.view({batch, time, heads, width})
      .permute({2, 0, 1, 3})
      .reshape({heads * batch, time, width});
}

at::Tensor ShareHeads(const at::Tensor& x, int64_t groups, int64_t sharing) {
  if (sharing == 1) return x;
  const int64_t batch = x.size(0) / groups, keys = x.size(1), width = x.size(2);
  return x.view({groups, 1, batch, keys, width})
      .expand({groups, sharing, batch, keys, width})
      .reshape({groups * sharing * batch, keys, width});
}

at::Tensor MergeHeads(const at::Tensor& x, int64_t heads) {
  const int64_t batch = x.size(0) / heads, time = x.size(1), width = x.size(2);
  return x.view({heads, batch, time, width})
      .permute({1, 2, 0, 3})
      .reshape({batch, time, heads * width});
}

at::Tensor CausalMask(int64_t queries, int64_t keys, int64_t reach,
                      const at::TensorOptions& options) {
  if (queries == 1 && keys - 1 <= reach) return {};
  const at::TensorOptions index = options.dtype(at::kLong);
  const at::Tensor query = at::arange(keys - queries, keys, index).unsqueeze(1);
  const at::Tensor distance = query - at::arange(keys, index).unsqueeze(0);
  return at::zeros({queries, keys}, options)
      .masked_fill(distance.lt(0).logical_or(distance.gt(reach)),
                   -std::numeric_limits<double>::infinity());
}

at::Tensor RelativeScores(const at::Tensor& q, const at::Tensor& relative_key,
                          const at::Tensor& relative_bias, int64_t keys) {
  const int64_t rows = q.size(0), time = q.size(1), width = q.size(2);
  const int64_t distances = relative_key.size(0), heads = relative_key.size(1);
  const at::Tensor by_distance =
      at::baddbmm(relative_bias.t().unsqueeze(1),
                  q.view({heads, rows / heads * time, width}),
                  relative_key.permute({1, 2, 0}))
          .view({rows, time, distances});
  // With rows of J+1 elements, distance d in column J-1-d, element (i, j) wanted lies
  // at i (J+1) + T-1-i+j = i J + (T-1) + j of the flat array: a view, one row shorter.
  return at::constant_pad_nd(by_distance, {keys - distances, 1})
      .flatten(1)
      .narrow(1, time - 1, time * keys)
      .view({rows, time, keys});
}

at::Tensor AttentionWeights(const at::Tensor& q, const at::Tensor& k,
                            const ScoreMask& mask) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  at::Tensor scores;
  if (mask.cap > 0) {
    scores = at::tanh(at::bmm(q * (scale / mask.cap), k.transpose(1, 2))) * mask.cap;
    if (mask.bias.defined()) scores = scores + mask.bias;
  } else if (mask.bias.defined()) {
    scores = at::baddbmm(mask.bias, q, k.transpose(1, 2), 1, scale);
  } else {
    scores = at::bmm(q * scale, k.transpose(1, 2));
  }
  // Some devices of autocast do not return bfloat16 here by themselves.
  const at::Tensor weights =
      at::softmax(scores, -1, at::toOpMathType(scores.scalar_type()));
  return mask.empty.defined() ? weights.masked_fill(mask.empty, 0.0) : weights;
}

Attended Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const ScoreMask& mask, const Dropout& drop) {
  at::Tensor weights = AttentionWeights(q, k, mask);
  at::Tensor mixed = at::bmm(drop(weights, DropoutKind::kAttention), v);
  return {.mixed = std::move(mixed), .weights = std::move(weights)};
}

at::Tensor MapsOfBatch(const at::Tensor& weights, int64_t heads) {
  return weights
      .view({heads, weights.size(0) / heads, weights.size(1), weights.size(2)})
      .transpose(0, 1);
}

}  // namespace mnemon
