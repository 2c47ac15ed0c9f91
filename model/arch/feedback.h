// SPDX-License-Identifier: MIT
// Registry entry of "Addressing Some Limitations of Transformers with Feedback Memory"
// (Fan et al. 2020). Contracts: model/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config.h"

namespace mnemon {

class Model;

absl::Status ValidateFeedback(const ModelConfig& config);
std::unique_ptr<Model> MakeFeedback(const ModelConfig& config);
std::vector<ModelConfig> FeedbackVariants();

}  // namespace mnemon
