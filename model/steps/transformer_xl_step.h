// SPDX-License-Identifier: MIT
// Transformer-XL without torch: what its configuration takes, its weights, and what
// serves it. Contracts: model/registry/registry.h.
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

absl::Status ValidateTransformerXl(const ModelConfig& config);
std::vector<TensorShape> TransformerXlTensors(const ModelConfig& config);
std::vector<ModelConfig> TransformerXlVariants();
// The carry of its sequence form.
StateSpec TransformerXlCarry(const ModelConfig& config);

absl::StatusOr<std::unique_ptr<Decoder>> MakeTransformerXlDecoder(
    const ModelConfig& config, const TensorViews& views, const StepOptions& options);

}  // namespace mnemon
