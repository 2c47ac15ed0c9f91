// SPDX-License-Identifier: MIT
#include "model/layers/relative_positions.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/repeat_interleave.h>

#include "model/layers/attention.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

RelativePositions MakeRelativePositions(int64_t rows, int64_t heads, int64_t width) {
  return {.key = at::empty({rows, heads, width}),
          .bias = at::empty({rows, heads}),
          .query_bias = at::empty({heads, width})};
}

void VisitRelativePositions(const WeightVisitor& visit, int64_t layer,
                            RelativePositions& weights) {
  VisitTensor(visit, names::Layer(layer, names::kRelativeKey), weights.key);
  VisitTensor(visit, names::Layer(layer, names::kRelativeBias), weights.bias);
  VisitTensor(visit, names::Layer(layer, names::kQueryBias), weights.query_bias);
}

RelativeQuery AddRelativePositions(const at::Tensor& q,
                                   const RelativePositions& weights,
                                   RelativeReach reach, int64_t keys,
                                   const at::Tensor& mask) {
  const int64_t first = reach.zero_row - reach.farthest, count = reach.farthest + 1;
  const at::Tensor relative =
      RelativeScores(q, weights.key.narrow(0, first, count),
                     weights.bias.narrow(0, first, count), keys);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  const int64_t batch = q.size(0) / weights.query_bias.size(0);
  const at::Tensor u =
      at::repeat_interleave(weights.query_bias, batch, 0).unsqueeze(1);  // [H*B, 1, K]
  return {.q = q + u,
          .bias = mask.defined() ? at::add(mask, relative, scale) : relative * scale};
}

}  // namespace mnemon
