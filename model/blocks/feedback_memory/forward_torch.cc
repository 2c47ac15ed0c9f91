// SPDX-License-Identifier: MIT
#include "model/blocks/feedback_memory/forward_torch.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/softmax.h>

namespace mnemon {
namespace {

double ScaleOf(int64_t width) { return 1.0 / std::sqrt(width); }

int64_t CountOf(const at::Tensor& carried) {
  return carried.defined() ? carried.size(1) : 0;
}

}  // namespace

int64_t VisibleOf(const Attention& attention, int64_t count) {
  return attention.window ? std::min(count, *attention.window) : count;
}

ProjectedMemories::ProjectedMemories(const Attention& attention,
                                     const NamedTensors& weights,
                                     const std::string& base, const at::Tensor& carried,
                                     int64_t steps, int64_t batch)
    : heads_(attention.heads),
      keys_(CountOf(carried) + steps + 1),
      values_(CountOf(carried) + steps + 1),
      key_(weights.Map(base + ".key"), steps, batch),
      value_(weights.Map(base + ".value"), steps, batch) {
  if (!carried.defined()) return;
  keys_.Append(SplitHeads(Linear(carried, weights.Map(base + ".key")), heads_));
  values_.Append(SplitHeads(Linear(carried, weights.Map(base + ".value")), heads_));
}

void ProjectedMemories::Append(const at::Tensor& m) {
  keys_.Append(SplitHeads(key_(m).unsqueeze(1), heads_));
  values_.Append(SplitHeads(value_(m).unsqueeze(1), heads_));
}

MemoryAttention::MemoryAttention(const Attention& attention,
                                 const NamedTensors& weights, const std::string& base,
                                 int64_t farthest, int64_t steps, int64_t batch)
    : attention_(attention),
      query_(weights.Map(base + ".query"), steps, batch),
      output_(weights.Map(base + ".output"), steps, batch) {
  const double scale = ScaleOf(attention.width);
  const int64_t first = attention.relative()->zero_row - farthest;
  const at::Tensor key = weights.Get(base + ".relative_key").narrow(0, first, farthest);
  const at::Tensor& query_bias = weights.Get(base + ".query_bias");
  const at::Tensor bias =
      attention.relative()->tied
          ? (key * query_bias).sum(-1)
          : weights.Get(base + ".relative_bias").narrow(0, first, farthest);
  relative_key_ = key.permute({1, 2, 0}).contiguous();
  relative_bias_ = bias.t().unsqueeze(1) * scale;
  query_bias_ = query_bias.unsqueeze(1) * scale;
}

MemoryAttention::Output MemoryAttention::operator()(const at::Tensor& z,
                                                    const ProjectedMemories& memories,
                                                    const Dropout& drop) {
  const at::Tensor q = query_(z);
  const auto visible = [&](const at::Tensor& all) {
    const int64_t count = all.size(1), seen = VisibleOf(attention_, count);
    return all.narrow(1, count - seen, seen);
  };
  const at::Tensor keys = visible(memories.keys());      // [H*B, n, K]
  const at::Tensor values = visible(memories.values());  // [H*B, n, K]
  const int64_t heads = attention_.heads;
  const int64_t rows = keys.size(0), n = keys.size(1), width = keys.size(2);
  const int64_t hidden = relative_key_.size(2) - n;
  const double scale = ScaleOf(width);
  const at::Tensor by_head =
      q.view({-1, heads, width}).transpose(0, 1).contiguous();  // [H, B, K]
  const at::Tensor relative = at::baddbmm(relative_bias_.narrow(2, hidden, n), by_head,
                                          relative_key_.narrow(2, hidden, n), 1, scale);
  const at::Tensor biased = at::add(query_bias_, by_head, scale);
  // Products and sums beat a batched matrix product here: with one query per batch
  // entry the latter is a loop of tiny calls.
  const at::Tensor scores =
      (keys * biased.view({rows, 1, width})).sum(-1) + relative.view({rows, n});
  const at::Tensor weights = at::softmax(scores, -1);
  const at::Tensor kept = drop(weights, DropoutKind::kAttention);
  const at::Tensor mixed = (values * kept.unsqueeze(-1)).sum(1);  // [H*B, K]
  return {
      .y = output_(mixed.view({heads, -1, width}).transpose(0, 1).reshape(q.sizes())),
      .weights = weights.unsqueeze(1)};
}

}  // namespace mnemon
