// SPDX-License-Identifier: MIT
// The step form of causal.
#include "model/arch/causal.h"
#include "model/arch/step_window.h"

namespace mnemon {

std::unique_ptr<Decoder> MakeCausalDecoder(const ModelConfig& config,
                                           const StateSpec& carry_spec,
                                           const TensorViews& views,
                                           const StepOptions& options) {
  return MakeWindowDecoder(config, carry_spec, views,
                           {.reach = config.positions - 1,
                            .zero_row = config.positions - 1,
                            .growth = Growth::kAppend,
                            .capacity = config.positions,
                            .carries_inputs = false},
                           options);
}

}  // namespace mnemon
