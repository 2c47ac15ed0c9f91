// SPDX-License-Identifier: MIT
// Transformer-XL in its sequence form. Contract:
// model/sequence_registry/sequence_registry.h.
#pragma once

#include <memory>

#include "model/config/config.h"

namespace mnemon {

class Model;

std::unique_ptr<Model> MakeTransformerXl(const ModelConfig& config);

}  // namespace mnemon
