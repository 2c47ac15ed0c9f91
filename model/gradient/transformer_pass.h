// SPDX-License-Identifier: MIT
// The pass of a model without a memory: one block at a time, each over all tokens.
#pragma once

#include <memory>

#include "model/gradient/gradient_pass.h"

namespace mnemon {

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeTransformerPass(const ModelDescription& model,
                                                        const FlatLayout& layout,
                                                        ThreadPool& pool);

}  // namespace mnemon
