// SPDX-License-Identifier: MIT
#include "model/sequence/unrolled_memory.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "model/blocks/attention/attend_torch.h"
#include "model/compute/tensor_names.h"

namespace mnemon {

UnrolledMemory::UnrolledMemory(const ModelDescription& model,
                               const NamedTensors& weights,
                               const std::vector<std::vector<int64_t>>& sites,
                               const Dropout& dropout, const at::Tensor& carried)
    : model_(model),
      weights_(weights),
      sites_(sites),
      dropout_(dropout),
      carried_(carried) {}

void UnrolledMemory::Prepare(int64_t time, int64_t batch) {
  // The last memory is for the next call, which projects it itself.
  const int64_t appended = time - 1;
  const int64_t queries = carried_.defined() ? time : time - 1;
  const auto remember = [&](const Attention& attention, const std::string& base) {
    memories_.emplace_back(attention, weights_, base, carried_, appended, batch);
  };
  if (model_.memory->shared) remember(MemoryReader(model_), "memory");
  for (size_t i = 0; i < model_.layers.size(); ++i) {
    std::vector<Step>& layer = layers_.emplace_back();
    for (size_t j = 0; j < model_.layers[i].size(); ++j) {
      const SubLayer& sub = model_.layers[i][j];
      const std::string base = BaseOf(i, sub);
      const NormTensors norm = weights_.Norm(base + ".norm", sub.norm);
      if (const auto* feed = std::get_if<FeedForward>(&sub.block)) {
        layer.push_back({.norm = norm,
                         .apply = FeedForwardSteps(*feed, weights_, base, time, batch),
                         .site = sites_[i][j]});
        continue;
      }
      const auto& attention = std::get<Attention>(sub.block);
      const int64_t farthest = VisibleOf(attention, carried_count() + time - 1);
      layer.push_back({.norm = norm,
                       .apply = MemoryAttention(attention, weights_, base, farthest,
                                                queries, batch),
                       .site = sites_[i][j],
                       .reading = readers_.size(),
                       .reads = &attention});
      readers_.push_back(&attention);
      if (!model_.memory->shared) remember(attention, base);
    }
  }
}

at::Tensor UnrolledMemory::Apply(Step& step, const at::Tensor& x, int64_t token,
                                 bool maps) {
  const Dropout drop = dropout_.At(step.site, token);
  if (step.reads == nullptr) {
    auto& feed = std::get<FeedForwardSteps>(step.apply);
    return x + drop(feed(Normed(x, step.norm), drop), DropoutKind::kFeedForwardOutput);
  }
  const ProjectedMemories& seen = memories_[memories_.size() == 1 ? 0 : step.reading];
  if (seen.empty()) {
    const int64_t rows = step.reads->heads * x.size(0);
    if (maps) looks_[step.reading].push_back(at::zeros({rows, 1, 0}, x.options()));
    return x;
  }
  auto& attend = std::get<MemoryAttention>(step.apply);
  const MemoryAttention::Output out = attend(Normed(x, step.norm), seen, drop);
  if (maps) looks_[step.reading].push_back(out.weights);
  return x + drop(out.y, DropoutKind::kAttentionOutput);
}

at::Tensor UnrolledMemory::Run(const at::Tensor& embedded, bool maps) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const int64_t time = embedded.size(0), batch = embedded.size(1);
  const at::Tensor mix =
      at::softmax(weights_.Get(names::kMemoryMix), 0).unsqueeze(0);  // [1, L+1]
  Prepare(time, batch);
  looks_.resize(readers_.size());
  std::vector<at::Tensor> made, outputs;
  for (at::Tensor x : embedded.unbind(0)) {  // [B, D]
    const auto token = static_cast<int64_t>(made.size());
    std::vector<at::Tensor> layer_outputs = {x};
    for (std::vector<Step>& layer : layers_) {
      for (Step& step : layer) x = Apply(step, x, token, maps);
      layer_outputs.push_back(x);
    }
    outputs.push_back(x);
    made.push_back(at::mm(mix, at::stack(layer_outputs).flatten(1)).view_as(x));
    if (token + 1 == time) break;
    for (ProjectedMemories& memories : memories_) memories.Append(made.back());
  }
  at::Tensor memory = at::stack(made, 1);  // [B, T, D]
  if (carried_.defined()) memory = at::cat({carried_, memory}, 1);
  const int64_t total = memory.size(1);
  const int64_t kept = VisibleOf(MemoryReader(model_), total);
  memory_ = memory.narrow(1, total - kept, kept);
  if (maps) MakeMaps(total);
  return at::stack(outputs, 1);
}

void UnrolledMemory::MakeMaps(int64_t total) {
  for (size_t r = 0; r < readers_.size(); ++r) {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& look : looks_[r]) {
      const int64_t end = carried_count() + static_cast<int64_t>(rows.size());
      const int64_t before = end - look.size(2);
      rows.push_back(at::constant_pad_nd(look, {before, total - end}));
    }
    maps_.push_back(MapsOfBatch(at::cat(rows, 1), readers_[r]->heads));
  }
}

}  // namespace mnemon
