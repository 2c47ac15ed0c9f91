// SPDX-License-Identifier: MIT
// The passes of the plain causal transformer and of Transformer-XL: layers that attend
// and feed forward, computed one after the other. Equations: model/arch/causal.cc and
// model/arch/transformer_xl.cc.
#pragma once

#include <memory>

#include "model/gradient/gradient_pass.h"

namespace mnemon {

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeCausalPass(const ModelConfig& config,
                                                   const FlatLayout& layout,
                                                   ThreadPool& pool);
template <class Real>
std::unique_ptr<GradientPass<Real>> MakeTransformerXlPass(const ModelConfig& config,
                                                          const FlatLayout& layout,
                                                          ThreadPool& pool);

}  // namespace mnemon
