// SPDX-License-Identifier: MIT
// The step form of causal.
#include "model/steps/causal_step.h"

#include "model/steps/step_window.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<Decoder>> MakeCausalDecoder(const ModelConfig& config,
                                                           const TensorViews& views,
                                                           const StepOptions& options) {
  return MakeStepDecoder(config,
                         WindowForm(config,
                                    {.reach = config.positions - 1,
                                     .zero_row = config.positions - 1,
                                     .growth = Growth::kAppend,
                                     .capacity = config.positions},
                                    CausalCarry(config)),
                         views, options);
}

}  // namespace mnemon
