// SPDX-License-Identifier: MIT
// The operations that several architectures share, from their weights.
#pragma once

#include "model/config/config.h"
#include "model/program/step_program.h"
#include "model/steps/step_weights.h"

namespace mnemon {

// What stands before the first layer: see model/layers/frame.h. `logits` was made from
// the same weights.
EmbedOp MakeEmbed(const ModelConfig& config, StepWeights& weights);
// What stands behind the last one.
LogitsOp MakeLogits(const ModelConfig& config, StepWeights& weights);
// See model/layers/feed_forward.h.
FeedForwardOp MakeFeedForward(const ModelConfig& config, int64_t layer,
                              StepWeights& weights);
// Of linear biases [H], where the config has them, else null.
const float* MakeSlopes(const ModelConfig& config, StepWeights& weights);

// D, H, K and F; embedding and logits.
StepProgram MakeProgram(const ModelConfig& config, StepWeights& weights);

}  // namespace mnemon
