// SPDX-License-Identifier: MIT
// The passes of the plain causal transformer, of Transformer-XL, fast weights
// and the encoder: layers computed one after the other. Equations: the sequence forms
// in model/arch.
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
template <class Real>
std::unique_ptr<GradientPass<Real>> MakeFastWeightsPass(const ModelConfig& config,
                                                        const FlatLayout& layout,
                                                        ThreadPool& pool);
template <class Real>
std::unique_ptr<GradientPass<Real>> MakeEncoderPass(const ModelConfig& config,
                                                    const FlatLayout& layout,
                                                    ThreadPool& pool);

}  // namespace mnemon
