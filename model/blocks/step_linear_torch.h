// SPDX-License-Identifier: MIT
// Linear map that a recurrence applies once per token. The gradient of its weights is
// computed once for all tokens: one large matrix product instead of a small product and
// an addition to the whole matrix per token.
//
// The inputs x_t are kept, and y_t = W x_t + P_t, where all P_t are slices of one
// tensor that equals the bias. The gradient of that tensor is then the list of all
// dy_t, and its node turns it into dW = sum_t dy_t x_t^T and db = sum_t dy_t. There is
// no shared accumulator: the result is exact, re-entrant and repeatable.
#pragma once

#include <cstdint>
#include <vector>

#include "model/blocks/affine_torch.h"

namespace mnemon {

// Lives for one Forward; used by one thread.
class StepLinear {
 public:
  // For exactly `steps` calls with x [batch, in].
  StepLinear(const Affine& weights, int64_t steps, int64_t batch);

  // x [B, in] -> [B, out].
  at::Tensor operator()(const at::Tensor& x);

 private:
  const at::Tensor weight_;              // [in, out], outside the graph
  at::Tensor inputs_;                    // [steps, B, in], outside the graph
  std::vector<at::Tensor> bias_slices_;  // [B, out] each, in the graph
  size_t step_ = 0;
};

}  // namespace mnemon
