// SPDX-License-Identifier: MIT
// A feed-forward block in step programs: the operation as data, with packed weights.
#pragma once

#include <string>

#include "model/blocks/feed_forward/settings.h"
#include "model/blocks/sub_layer_end_step.h"
#include "model/compute/kernels.h"
#include "model/compute/step_weights.h"

namespace mnemon {

// x + W_out act(W_in norm(x)) [* W_factor norm(x)].
struct FeedForwardOp {
  NormView norm;  // no gain: none
  MatrixView in, out;
  MatrixView factor;  // no outputs: not gated
  Act act = Act::kRelu;
  SubLayerEndOp end;
};

// `base` is the name of the block. Weights are filled by weights.Pack().
FeedForwardOp MakeFeedForward(const FeedForward& feed, const std::string& base,
                              const NormView& norm, StepWeights& weights);

Act ActOf(Activation activation);

}  // namespace mnemon
