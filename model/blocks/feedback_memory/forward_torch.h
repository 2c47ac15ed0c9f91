// SPDX-License-Identifier: MIT
// The memory and the attention to it in sequence forms, strictly token by token; see
// settings.h. At position t the t memories before it are visible, with a window only
// the last of them; distance n (1 = the newest) uses row z - n of the tables. A query
// that sees no memory skips its sub-layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/blocks/affine_torch.h"
#include "model/blocks/attention/attend_torch.h"
#include "model/blocks/attention/settings.h"
#include "model/blocks/dropout_torch.h"
#include "model/blocks/feedback_memory/growing_rows_torch.h"
#include "model/blocks/step_linear_torch.h"

namespace mnemon {

// The memories among `count` that a query sees.
int64_t VisibleOf(const Attention& attention, int64_t count);

// Keys and values of all memories so far, for one block or for all: each memory is
// projected once, when it is made.
class ProjectedMemories {
 public:
  // `carried` [B, n, D]: memories of the carry, or undefined. `steps`: capacity for
  // more. `base`: prefix of .key and .value in the names of the maps.
  ProjectedMemories(const Attention& attention, const NamedTensors& weights,
                    const std::string& base, const at::Tensor& carried, int64_t steps,
                    int64_t batch);

  // m [B, D].
  void Append(const at::Tensor& m);

  bool empty() const { return keys_.empty(); }
  // [H*B, n, K]
  const at::Tensor& keys() const { return keys_.rows(); }
  const at::Tensor& values() const { return values_.rows(); }

 private:
  const int64_t heads_;
  GrowingRows keys_, values_;
  StepLinear key_, value_;
};

// Attention of one block to the memories, a query of each sequence at a time.
class MemoryAttention {
 public:
  // For exactly `steps` calls; `farthest`: the largest distance of any of them.
  MemoryAttention(const Attention& attention, const NamedTensors& weights,
                  const std::string& base, int64_t farthest, int64_t steps,
                  int64_t batch);

  struct Output {
    at::Tensor y;        // [B, D], before its dropout
    at::Tensor weights;  // [H*B, 1, n], before dropout
  };
  // z [B, D], normed. REQUIRES: the memories are not empty.
  //   s_j = c ((q + u).k_j + q.R[z-(n-j)] + S[z-(n-j)]),
  //   o = sum_j drop(softmax(s))_j v_j
  Output operator()(const at::Tensor& z, const ProjectedMemories& memories,
                    const Dropout& drop);

 private:
  const Attention attention_;
  StepLinear query_, output_;
  // Scaled by c = 1/sqrt(K); the last row is distance 1.
  at::Tensor relative_key_;   // R^T [H, K, n], not scaled
  at::Tensor relative_bias_;  // c S^T [H, 1, n]
  at::Tensor query_bias_;     // c u [H, 1, K]
};

}  // namespace mnemon
