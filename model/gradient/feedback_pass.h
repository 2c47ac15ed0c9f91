// SPDX-License-Identifier: MIT
// The pass of the Feedback Transformer: all layers of one token at a time, forward and
// backward, with the gradients of all weights summed after the loop. Equations:
// model/blocks/feedback_memory/settings.h.
#pragma once

#include <memory>

#include "model/gradient/gradient_pass.h"

namespace mnemon {

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeFeedbackPass(const ModelDescription& model,
                                                     const FlatLayout& layout,
                                                     ThreadPool& pool);

}  // namespace mnemon
