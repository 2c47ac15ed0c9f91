// SPDX-License-Identifier: MIT
// Parts common to the architectures of our own configuration files.
#pragma once

#include <string_view>

#include "model/description/description.h"
#include "model/families/config.h"

namespace mnemon {

// Sizes, dropout, embedding and head, without layers. REQUIRES: validated.
ModelDescription FrameOf(const ModelConfig& config);

FeedForward FeedForwardOf(const ModelConfig& config);

// Configuration of labml's experiment with a plain transformer.
ModelConfig ReferenceTransformer(std::string_view architecture);

// Adds L layers of `mixer`, named attn, and the feed-forward block, named ff.
void AddLayers(const ModelConfig& config, const Norm& norm, const Block& mixer,
               ModelDescription& model);

}  // namespace mnemon
