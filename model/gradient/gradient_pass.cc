// SPDX-License-Identifier: MIT
#include "model/gradient/gradient_pass.h"

#include "model/gradient/feedback_pass.h"
#include "model/gradient/transformer_pass.h"

namespace mnemon {

template <class Real>
std::unique_ptr<GradientPass<Real>> MakeGradientPass(const ModelDescription& model,
                                                     const FlatLayout& layout,
                                                     ThreadPool& pool) {
  return model.memory ? MakeFeedbackPass<Real>(model, layout, pool)
                      : MakeTransformerPass<Real>(model, layout, pool);
}

template std::unique_ptr<GradientPass<float>> MakeGradientPass(const ModelDescription&,
                                                               const FlatLayout&,
                                                               ThreadPool&);
template std::unique_ptr<GradientPass<double>> MakeGradientPass(const ModelDescription&,
                                                                const FlatLayout&,
                                                                ThreadPool&);

}  // namespace mnemon
