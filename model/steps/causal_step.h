// SPDX-License-Identifier: MIT
// The plain pre-norm causal transformer without torch: what its configuration takes,
// its weights, and what serves it. Contracts: model/registry/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/state/state.h"
#include "model/steps/step_options.h"
#include "model/weights/weights.h"

namespace mnemon {

absl::Status ValidateCausal(const ModelConfig& config);
std::vector<TensorShape> CausalTensors(const ModelConfig& config);
std::vector<ModelConfig> CausalVariants();
// The carry of its sequence form.
StateSpec CausalCarry(const ModelConfig& config);

absl::StatusOr<std::unique_ptr<Decoder>> MakeCausalDecoder(const ModelConfig& config,
                                                           const TensorViews& views,
                                                           const StepOptions& options);

}  // namespace mnemon
