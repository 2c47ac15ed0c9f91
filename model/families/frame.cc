// SPDX-License-Identifier: MIT
#include "model/families/frame.h"

#include <cmath>
#include <string>
#include <vector>

namespace mnemon {
namespace {

Embedding::Positions PositionsOf(const ModelConfig& config) {
  switch (config.position_kind) {
    case PositionKind::kSinusoidal:
      return Embedding::Positions::kSinusoidal;
    case PositionKind::kLearned:
      return Embedding::Positions::kLearned;
    default:
      return Embedding::Positions::kNone;
  }
}

}  // namespace

ModelDescription FrameOf(const ModelConfig& config) {
  return {.width = config.d_model,
          .vocab = config.vocab,
          .dropout = config.dropout,
          .embedding = {.scale = config.embed_scale
                                     ? std::sqrt(static_cast<double>(config.d_model))
                                     : 1.0,
                        .positions = PositionsOf(config)},
          .layers = {},
          .memory = {},
          .head = {.tied = config.tie_head}};
}

FeedForward FeedForwardOf(const ModelConfig& config) {
  return {
      .hidden = config.d_ff, .activation = config.activation, .gated = config.gated};
}

ModelConfig ReferenceTransformer(std::string_view architecture) {
  return {.architecture = std::string(architecture),
          .d_model = 256,
          .heads = 16,
          .layers = 6,
          .d_ff = 1024,
          .vocab = 65,
          .positions = 5000,
          .position_kind = PositionKind::kSinusoidal,
          .embed_scale = true};
}

void AddLayers(const ModelConfig& config, const Norm& norm, const Block& mixer,
               ModelDescription& model) {
  const std::vector<SubLayer> layer = {
      {.name = "attn", .norm = norm, .block = mixer},
      {.name = "ff", .norm = {}, .block = FeedForwardOf(config)}};
  model.layers.assign(static_cast<size_t>(config.layers), layer);
}

}  // namespace mnemon
