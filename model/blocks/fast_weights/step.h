// SPDX-License-Identifier: MIT
// Fast weights in step programs: the operation as data, with packed weights. A prompt
// goes through it as a whole; the recurrence runs token by token inside the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "model/blocks/fast_weights/calls.h"
#include "model/blocks/fast_weights/settings.h"
#include "model/blocks/sub_layer_end_step.h"
#include "model/compute/kernels.h"
#include "model/compute/step_weights.h"
#include "model/state/state.h"

namespace mnemon {

// x + W_o fast(W_q z, W_k z, W_v z, sigmoid(W_g z)), z = norm(x), in one sub-layer.
struct FastWeightsOp {
  NormView norm;       // no gain: none
  MatrixView project;  // query, key, value, laid out as in AttentionOp
  int64_t head_stride = 0;
  MatrixView gate;  // [H, D], for beta; no outputs: the sum rule
  FastWeightCall call;
  MatrixView output;  // a slice per head
  SubLayerEndOp end;
};

// `base` is the name of the block, `entry` the first of its entries. Weights are filled
// by weights.Pack().
FastWeightsOp MakeFastWeights(const FastWeights& fast, const std::string& base,
                              const NormView& norm, const StateSpec& spec, size_t entry,
                              StepWeights& weights);

}  // namespace mnemon
