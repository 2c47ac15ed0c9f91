// SPDX-License-Identifier: MIT
#include "model/gradient/gradient_pass.h"

#include "model/gradient/feedback_pass.h"
#include "model/gradient/transformer_pass.h"

namespace mnemon {

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeGradientPass(const ModelConfig& config,
                                                     const FlatLayout& layout,
                                                     ThreadPool& pool) {
  if (config.architecture == "causal") {
    return MakeCausalPass<Real>(config, layout, pool);
  }
  if (config.architecture == "transformer_xl") {
    return MakeTransformerXlPass<Real>(config, layout, pool);
  }
  if (config.architecture == "feedback") {
    return MakeFeedbackPass<Real>(config, layout, pool);
  }
  if (config.architecture == "fast_weights") {
    return MakeFastWeightsPass<Real>(config, layout, pool);
  }
  if (config.architecture == "encoder") {
    return MakeEncoderPass<Real>(config, layout, pool);
  }
  return nullptr;
}

template std::unique_ptr<GradientPass<float>> MakeGradientPass(const ModelConfig&,
                                                               const FlatLayout&,
                                                               ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeGradientPass(const ModelConfig&,
                                                                const FlatLayout&,
                                                                ThreadPool&);

}  // namespace mnemon
