// SPDX-License-Identifier: MIT
// Measures of how well a model predicts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace at {
class Tensor;
}

namespace mnemon {

struct Evaluation {
  int64_t positions = 0;
  int64_t correct = 0;  // positions whose best logit is the target's
  double nats = 0;      // cross-entropy, summed over all positions

  // logits [n, V] and targets [n], int64, on one device. Negative targets do not count.
  void Add(const at::Tensor& logits, const at::Tensor& targets);
  void Add(const Evaluation& other);

  // Means over the positions; 0 if there are none.
  double loss() const {
    return nats / static_cast<double>(std::max<int64_t>(1, positions));
  }
  double accuracy() const {
    return static_cast<double>(correct) /
           static_cast<double>(std::max<int64_t>(1, positions));
  }
};

}  // namespace mnemon
