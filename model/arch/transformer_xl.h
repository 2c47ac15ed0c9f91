// SPDX-License-Identifier: MIT
// Registry entry of Transformer-XL. Contracts: model/registry/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/arch/step_decoder.h"
#include "model/config/config.h"
#include "model/weights/weights.h"

namespace mnemon {

class Model;

absl::Status ValidateTransformerXl(const ModelConfig& config);
std::unique_ptr<Model> MakeTransformerXl(const ModelConfig& config);
std::unique_ptr<Decoder> MakeTransformerXlDecoder(const ModelConfig& config,
                                                  const StateSpec& carry_spec,
                                                  const TensorViews& views,
                                                  const StepOptions& options);
std::vector<ModelConfig> TransformerXlVariants();

}  // namespace mnemon
