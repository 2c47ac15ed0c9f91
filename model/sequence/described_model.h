// SPDX-License-Identifier: MIT
// The sequence form of any model that a description defines: it walks the layers and
// knows none of the blocks.
#pragma once

#include <memory>

#include "model/description/description.h"
#include "model/sequence/model.h"

namespace mnemon {

// With uninitialised weights. REQUIRES: CheckDescription accepts the model.
std::unique_ptr<Model> MakeDescribedModel(const ModelDescription& model);

}  // namespace mnemon
