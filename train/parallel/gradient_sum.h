// SPDX-License-Identifier: MIT
// The sum of the gradients that the shards of a batch have computed, and its norm: a
// function of the number of shards, not of the threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mnemon {

class GradientSum {
 public:
  // One buffer [size] for each shard: float32, contiguous, on one device, shared with
  // their owner.
  explicit GradientSum(std::vector<at::Tensor> shards);

  // Blocks of kFlatBlock numbers.
  int64_t blocks() const { return static_cast<int64_t>(squares_.size()); }
  // Adds those of the first `shards` into the first one, in these blocks; the others
  // are 0 and have always been. Part `worker` of `workers`, which may run at once.
  void Add(int shards, std::span<const int64_t> blocks, int worker, int workers);
  // The 2-norm of the sum, when all parts are done.
  double Norm() const;

 private:
  const std::vector<at::Tensor> shards_;
  std::vector<double> squares_;  // of each block
};

// What a gradient of this norm is multiplied with so that it is at most `limit` (0: no
// limit): limit / (norm + 1e-6), as PyTorch does, or 1.
double ClipScale(double norm, double limit);

}  // namespace mnemon
