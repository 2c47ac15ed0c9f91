// SPDX-License-Identifier: MIT
// The operations that several architectures share, from their weights.
#pragma once

#include "model/config/config.h"
#include "model/program/step_program.h"
#include "model/steps/step_weights.h"

namespace mnemon {

// What stands behind the last layer: see model/layers/frame.h.
LogitsOp MakeLogits(const ModelConfig& config, StepWeights& weights);
// What stands before the first one; the head may serve as the embedding too.
EmbedOp MakeEmbed(const ModelConfig& config, const LogitsOp& logits,
                  StepWeights& weights);
// See model/layers/feed_forward.h.
FeedForwardOp MakeFeedForward(const ModelConfig& config, int64_t layer,
                              StepWeights& weights);
// Of linear biases [H], where the config has them, else null.
const float* MakeSlopes(const ModelConfig& config, StepWeights& weights);

// D, H, K and F; embedding and logits.
StepProgram MakeProgram(const ModelConfig& config, StepWeights& weights);

}  // namespace mnemon
