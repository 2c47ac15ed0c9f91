// SPDX-License-Identifier: MIT
#include "model/blocks/feed_forward/step.h"

namespace mnemon {

FeedForwardOp MakeFeedForward(const FeedForward& feed, const std::string& base,
                              const NormView& norm, StepWeights& weights) {
  FeedForwardOp op{.norm = norm,
                   .in = weights.Linear({base + ".in"}),
                   .out = weights.Linear({base + ".out"}),
                   .factor = {},
                   .act = ActOf(feed.activation)};
  if (feed.gated) op.factor = weights.Linear({base + ".factor"});
  return op;
}

Act ActOf(Activation activation) {
  return activation == Activation::kGelu ? Act::kGelu : Act::kRelu;
}

}  // namespace mnemon
