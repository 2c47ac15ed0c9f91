// SPDX-License-Identifier: MIT
// Measures of how well a model predicts.
#pragma once

#include <cstdint>

namespace at {
class Tensor;
}

namespace mnemon {

struct Evaluation {
  int64_t positions = 0;
  int64_t correct = 0;  // where the best logit is that of the target
  double nats = 0;      // cross-entropy, summed over all positions

  // logits [n, V] and targets [n], int64, on one device.
  void Add(const at::Tensor& logits, const at::Tensor& targets);
  void Add(const Evaluation& other);

  // Means; REQUIRES: positions > 0.
  double loss() const { return nats / static_cast<double>(positions); }
  double accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(positions);
  }
};

}  // namespace mnemon
