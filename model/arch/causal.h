// SPDX-License-Identifier: MIT
// Registry entry of the plain pre-norm causal transformer. Contracts: model/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config.h"

namespace mnemon {

class Model;

absl::Status ValidateCausal(const ModelConfig& config);
std::unique_ptr<Model> MakeCausal(const ModelConfig& config);
std::vector<ModelConfig> CausalVariants();

}  // namespace mnemon
