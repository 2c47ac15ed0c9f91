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
  switch (activation) {
    case Activation::kRelu:
      return Act::kRelu;
    case Activation::kGelu:
      return Act::kGelu;
    case Activation::kGeluTanh:
      return Act::kGeluTanh;
    case Activation::kSilu:
      return Act::kSilu;
    case Activation::kSigmoid:
      return Act::kSigmoid;
    case Activation::kTanh:
      return Act::kTanh;
  }
  return Act::kNone;
}

}  // namespace mnemon
