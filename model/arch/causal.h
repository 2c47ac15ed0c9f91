// SPDX-License-Identifier: MIT
// The plain pre-norm causal transformer in its sequence form. Contract:
// model/sequence_registry/sequence_registry.h.
#pragma once

#include <memory>

#include "model/config/config.h"

namespace mnemon {

class Model;

std::unique_ptr<Model> MakeCausal(const ModelConfig& config);

}  // namespace mnemon
