// SPDX-License-Identifier: MIT
// The recurrence of the sequence form of a model with a memory, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/affine_torch.h"
#include "model/blocks/dropout_torch.h"
#include "model/blocks/feed_forward/forward_torch.h"
#include "model/blocks/feedback_memory/forward_torch.h"
#include "model/description/description.h"

namespace mnemon {

// Exists for one call. Computes in the type of the weights even under autocast: a token
// has few rows, for which autocast would add a conversion or two to each small product.
class UnrolledMemory {
 public:
  // `carried` [B, n, D]: memories of the carry, undefined when fresh. `sites`: see
  // DropoutSites. All but `carried` must outlive it.
  UnrolledMemory(const ModelDescription& model, const NamedTensors& weights,
                 const std::vector<std::vector<int64_t>>& sites, const Dropout& dropout,
                 const at::Tensor& carried);

  // embedded [T, B, D] -> outputs of the last layer [B, T, D]. Call once. `maps`:
  // whether TakeMaps will be called.
  at::Tensor Run(const at::Tensor& embedded, bool maps);

  // Memories of the carry and of the call that remain visible [B, n, D].
  const at::Tensor& memory() const { return memory_; }
  // For each block of attention [B, H, T, n], carried memories first.
  std::vector<at::Tensor> TakeMaps() { return std::move(maps_); }

 private:
  // A sub-layer applied in the loop over tokens.
  struct Step {
    NormTensors norm;
    std::variant<MemoryAttention, FeedForwardSteps> apply;
    int64_t site = 0;
    size_t reading = 0;                // attention: which of the blocks that read
    const Attention* reads = nullptr;  // null: a feed-forward
  };

  void Prepare(int64_t time, int64_t batch);
  at::Tensor Apply(Step& step, const at::Tensor& x, int64_t token, bool maps);
  void MakeMaps(int64_t total);
  int64_t carried_count() const { return carried_.defined() ? carried_.size(1) : 0; }

  const ModelDescription& model_;
  const NamedTensors& weights_;
  const std::vector<std::vector<int64_t>>& sites_;
  const Dropout& dropout_;
  const at::Tensor carried_;
  std::vector<std::vector<Step>> layers_;
  std::vector<ProjectedMemories> memories_;  // one, or one of each reading block
  std::vector<const Attention*> readers_;
  std::vector<std::vector<at::Tensor>> looks_;  // of each reading block and token
  at::Tensor memory_;
  std::vector<at::Tensor> maps_;
};

}  // namespace mnemon
