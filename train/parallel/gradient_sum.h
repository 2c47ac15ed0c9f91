// SPDX-License-Identifier: MIT
// The sum of the gradients of a batch's shards, and its norm. Both depend on the number
// of shards, not on the threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mnemon {

class GradientSum {
 public:
  // One buffer [size] for each shard: float32, contiguous, on one device. The caller
  // keeps using the buffers.
  explicit GradientSum(std::vector<at::Tensor> shards);

  // Number of blocks of kFlatBlock elements.
  int64_t blocks() const { return static_cast<int64_t>(squares_.size()); }
  // Adds the first `shards` buffers into the first one, in the given blocks; all other
  // blocks must always have been 0. Does part `worker` of `workers`; the parts may run
  // at the same time.
  void Add(int shards, std::span<const int64_t> blocks, int worker, int workers);
  // The 2-norm of the sum. REQUIRES: all parts of Add are done.
  double Norm() const;

 private:
  const std::vector<at::Tensor> shards_;
  std::vector<double> squares_;  // of each block
};

// The factor that limits a gradient of this norm to `limit` (0: no limit):
// limit / (norm + 1e-6), as in PyTorch, but at most 1.
double ClipScale(double norm, double limit);

}  // namespace mnemon
