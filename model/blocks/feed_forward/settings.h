// SPDX-License-Identifier: MIT
// Settings of a feed-forward block, and the tensors that follow from them.
//
//   y = W_out act(W_in z + b_in) + b_out
// or, gated ("GLU Variants Improve Transformer", Shazeer, 2020, equation 6, there
// without biases):
//   y = W_out (act(W_in z + b_in) * (W_factor z + b_factor)) + b_out
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/blocks/tensor_list.h"
#include "model/compute/activation.h"

namespace mnemon {

struct FeedForward {
  int64_t hidden = 1;  // F
  Activation activation = Activation::kRelu;
  bool gated = false;
  bool bias = true;  // of all its maps

  bool operator==(const FeedForward&) const = default;
};

// Errors in the settings, in words; empty if valid.
std::vector<std::string> FaultsOf(const FeedForward& feed);

// `base` is the name of the block, such as "layers.0.ff"; D = `width`.
void AddTensors(const FeedForward& feed, const std::string& base, int64_t width,
                TensorList& list);

}  // namespace mnemon
