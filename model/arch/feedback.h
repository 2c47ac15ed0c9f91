// SPDX-License-Identifier: MIT
// Registry entry of "Addressing Some Limitations of Transformers with Feedback Memory"
// (Fan et al. 2020). Contracts: model/registry/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/arch/step_decoder.h"
#include "model/config/config.h"
#include "model/weights/weights.h"

namespace mnemon {

class Model;

absl::Status ValidateFeedback(const ModelConfig& config);
std::unique_ptr<Model> MakeFeedback(const ModelConfig& config);
std::unique_ptr<Decoder> MakeFeedbackDecoder(const ModelConfig& config,
                                             const StateSpec& carry_spec,
                                             const TensorViews& views,
                                             const StepOptions& options);
std::vector<ModelConfig> FeedbackVariants();

}  // namespace mnemon
