// SPDX-License-Identifier: MIT
// The sequence form of any described model: it visits the layers without knowing the
// blocks.
#pragma once

#include <memory>

#include "model/description/description.h"
#include "model/sequence/model.h"

namespace mnemon {

// The weights are uninitialised. REQUIRES: CheckDescription accepts the model.
std::unique_ptr<Model> MakeDescribedModel(const ModelDescription& model);

}  // namespace mnemon
