// SPDX-License-Identifier: MIT
#include "model/blocks/attention/score_mask_torch.h"

#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "base/strings.h"

namespace mnemon {

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

}  // namespace mnemon
