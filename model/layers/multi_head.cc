// SPDX-License-Identifier: MIT
#include "model/layers/multi_head.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "base/strings.h"
#include "model/weights/tensor_names.h"

namespace mnemon {

MultiHead MakeMultiHead(int64_t width, int64_t heads) {
  const auto map = [width] { return MakeLinear(width, width, HasBias::kNo); };
  return {
      .heads = heads, .query = map(), .key = map(), .value = map(), .output = map()};
}

void VisitMultiHead(const WeightVisitor& visit, int64_t layer, MultiHead& weights) {
  VisitAffine(visit, names::Layer(layer, names::kQuery), weights.query);
  VisitAffine(visit, names::Layer(layer, names::kKey), weights.key);
  VisitAffine(visit, names::Layer(layer, names::kValue), weights.value);
  VisitAffine(visit, names::Layer(layer, names::kOutput), weights.output);
}

absl::StatusOr<ScoreMask> MakeScoreMask(const at::Tensor& mask, const ScoreShape& shape,
                                        at::ScalarType type) {
  if (!mask.defined()) return ScoreMask{};
  const auto& [batch, heads, queries, keys] = shape;
  const std::vector<int64_t> full = {batch, heads, queries, keys};
  std::vector<int64_t> expected = full;
  if (mask.dim() <= 3) expected.erase(expected.begin() + 1);
  if (mask.dim() <= 2) expected.erase(expected.begin());
  if (mask.sizes() != expected) {
    return InvalidField(
        "mask", StrCat("a mask is [", queries, ", ", keys, "], [", batch, ", ", queries,
                       ", ", keys, "] or [", StrJoin(full, ", "), "], got [",
                       StrJoin(mask.sizes().vec(), ", "), "]"));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor bias;
  if (mask.is_floating_point()) {
    bias = mask.to(type);
    if (!bias.lt(kInfinity).all().item<bool>()) {
      return InvalidField("mask", "an additive mask holds neither NaN nor infinity");
    }
  } else {
    bias = at::zeros(mask.sizes(), mask.options().dtype(type))
               .masked_fill(mask.eq(0), -kInfinity);
  }
  // Heads are the outer part of the batch.
  if (mask.dim() == 3) bias = bias.repeat({heads, 1, 1});
  if (mask.dim() == 4) bias = bias.transpose(0, 1).flatten(0, 1);
  const at::Tensor empty = bias.eq(-kInfinity).all(-1, /*keepdim=*/true);
  if (!empty.any().item<bool>()) return ScoreMask{.bias = bias, .empty = {}};
  // Finite scores for the softmax and its gradient; the weights are zeroed after it.
  return ScoreMask{.bias = bias.masked_fill(empty, 0.0), .empty = empty};
}

namespace {

// [H*B, T, J]
at::Tensor WeightsByHead(const at::Tensor& query, const at::Tensor& key,
                         const MultiHead& weights, const ScoreMask& mask) {
  return AttentionWeights(SplitHeads(Linear(query, weights.query), weights.heads),
                          SplitHeads(Linear(key, weights.key), weights.heads), mask);
}

}  // namespace

at::Tensor MultiHeadWeights(const at::Tensor& query, const at::Tensor& key,
                            const MultiHead& weights, const ScoreMask& mask) {
  return MapsOfBatch(WeightsByHead(query, key, weights, mask), weights.heads);
}

MultiHeadResult AttendMultiHead(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const MultiHead& weights,
                                const ScoreMask& mask, const Dropout& drop) {
  const at::Tensor by_head = WeightsByHead(query, key, weights, mask);
  const at::Tensor v = SplitHeads(Linear(value, weights.value), weights.heads);
  const at::Tensor mixed =
      MergeHeads(at::bmm(drop(by_head, DropoutKind::kAttention), v), weights.heads);
  return {.output = Linear(mixed, weights.output),
          .weights = MapsOfBatch(by_head, weights.heads)};
}

}  // namespace mnemon
