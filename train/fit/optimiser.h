// SPDX-License-Identifier: MIT
// Gradient descent on one flat buffer of weights; g is the gradient, t counts from 1.
//   sgd         b = momentum b + g;  w -= lr b
//   adam        m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//               w -= lr / (1-b1^t) m / (sqrt(v) / sqrt(1-b2^t) + eps)        (PyTorch)
//   adamw       w *= 1 - lr weight_decay, then adam
//   adam_labml  w -= lr sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) + eps)
// sgd, adam and adam_labml add weight_decay w to g.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "train/data/config.h"
#include "train/parallel/flat_operations.h"

namespace mnemon {

class Optimiser {
 public:
  // values, gradients [size]: float32, contiguous; the caller keeps using them.
  Optimiser(const OptimiserOptions& options, at::Tensor values, at::Tensor gradients);

  // An update is BeginStep, then Apply over all elements, in parts in any order and on
  // several threads at once. `lr`: the rate. `scale`: a factor of the gradients.
  void BeginStep() { ++steps_; }
  void Apply(double lr, double scale, int64_t begin, int64_t end);

  // Blocks of kFlatBlock elements that an update may change even if their gradients are
  // 0, ascending: because weights decay or a buffer is not 0. Changes when buffers are
  // restored.
  std::vector<int64_t> ChangingBlocks() const;

  // Updates so far, and the buffers [size] kept between them, by name. Setting both
  // restores a saved optimiser.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  std::vector<std::pair<std::string, at::Tensor>> Buffers() const;

 private:
  // The same on a device whose memory the CPU cannot access.
  void ApplySgdThere(const SgdPass& pass, int64_t begin, int64_t end);
  void ApplyAdamThere(const AdamPass& pass, int64_t begin, int64_t end);
  AdamFactors MakeAdamFactors(double lr) const;

  const OptimiserOptions options_;
  const at::Tensor values_;
  const at::Tensor gradients_;
  int64_t steps_ = 0;
  at::Tensor first_;   // sgd: b; adam: m
  at::Tensor second_;  // adam: v
};

}  // namespace mnemon
