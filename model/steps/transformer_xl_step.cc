// SPDX-License-Identifier: MIT
// The step form of Transformer-XL: always a sliding window, each token sees M keys
// before its own.
#include "model/steps/transformer_xl_step.h"

#include <algorithm>

#include "model/steps/step_window.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<Decoder>> MakeTransformerXlDecoder(
    const ModelConfig& config, const TensorViews& views, const StepOptions& options) {
  return MakeStepDecoder(config,
                         WindowForm(config,
                                    {.reach = config.mem_len,
                                     .zero_row = config.positions,
                                     .growth = Growth::kRing,
                                     .capacity = std::max<int64_t>(1, config.mem_len)},
                                    TransformerXlCarry(config)),
                         views, options);
}

}  // namespace mnemon
