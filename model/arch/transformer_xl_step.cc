// SPDX-License-Identifier: MIT
// The step form of Transformer-XL: always a sliding window, each token sees M keys
// before its own.
#include <algorithm>

#include "model/arch/step_window.h"
#include "model/arch/transformer_xl.h"

namespace mnemon {

std::unique_ptr<Decoder> MakeTransformerXlDecoder(const ModelConfig& config,
                                                  const StateSpec& carry_spec,
                                                  const TensorViews& views,
                                                  const StepOptions& options) {
  return MakeWindowDecoder(config, carry_spec, views,
                           {.reach = config.mem_len,
                            .zero_row = config.positions,
                            .growth = Growth::kRing,
                            .capacity = std::max<int64_t>(1, config.mem_len),
                            .carries_inputs = true},
                           options);
}

}  // namespace mnemon
