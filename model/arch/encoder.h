// SPDX-License-Identifier: MIT
// Registry entry of the encoder. Contracts: model/registry/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config/config.h"

namespace mnemon {

class Model;

absl::Status ValidateEncoder(const ModelConfig& config);
std::unique_ptr<Model> MakeEncoder(const ModelConfig& config);
std::vector<ModelConfig> EncoderVariants();

}  // namespace mnemon
