// SPDX-License-Identifier: MIT
// The encoder without torch: what its configuration takes, its weights, and what serves
// it. Contracts: model/registry/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/steps/step_options.h"
#include "model/weights/weights.h"

namespace mnemon {

absl::Status ValidateEncoder(const ModelConfig& config);
std::vector<TensorShape> EncoderTensors(const ModelConfig& config);
std::vector<ModelConfig> EncoderVariants();

std::unique_ptr<Predictor> MakeEncoderPredictor(const ModelConfig& config,
                                                const TensorViews& views,
                                                const StepOptions& options);

}  // namespace mnemon
