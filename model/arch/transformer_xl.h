// SPDX-License-Identifier: MIT
// Registry entry of Transformer-XL. Contracts: model/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config.h"

namespace mnemon {

class Model;

absl::Status ValidateTransformerXl(const ModelConfig& config);
std::unique_ptr<Model> MakeTransformerXl(const ModelConfig& config);
std::vector<ModelConfig> TransformerXlVariants();

}  // namespace mnemon
