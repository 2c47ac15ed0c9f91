// SPDX-License-Identifier: MIT
// Registry entry of the Fast Weights Transformer with DPFP. Contracts:
// model/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config.h"

namespace mnemon {

class Model;

absl::Status ValidateFastWeights(const ModelConfig& config);
std::unique_ptr<Model> MakeFastWeights(const ModelConfig& config);
std::vector<ModelConfig> FastWeightsVariants();

}  // namespace mnemon
