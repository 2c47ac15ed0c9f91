// SPDX-License-Identifier: MIT
// model_type smollm3: as llama, without rotary positions in some layers.
#include "model/families/foreign_table.h"
#include "model/families/llama_like.h"

namespace mnemon {
namespace {

ForeignModel Read(ForeignConfig& config) {
  LlamaLike like = ReadLlama(config);
  std::vector<Attention> layers = WindowedLayers(config, like);
  const std::vector<int64_t> turned = config.Integers("no_rope_layers");
  const int64_t every = config.Integer("no_rope_layer_interval", 4);
  if (!turned.empty() && turned.size() != layers.size()) {
    config.Refuse("no_rope_layers", "a number for each layer");
    return {};
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool turns = turned.empty()
                           ? every == 0 || static_cast<int64_t>(i + 1) % every != 0
                           : turned[i] != 0;
    if (!turns) layers[i].positions = {};
  }
  return FinishLlamaLike(std::move(like), layers);
}

}  // namespace

ForeignFamily HfSmolLm3() {
  return {.model_type = "smollm3", .summary = "SmolLM3", .read = Read};
}

}  // namespace mnemon
