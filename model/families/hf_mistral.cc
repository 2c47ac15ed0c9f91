// SPDX-License-Identifier: MIT
// model_type mistral: as llama, with a window ("Mistral 7B", Jiang et al., 2023).
#include "model/families/foreign_table.h"
#include "model/families/llama_like.h"

namespace mnemon {
namespace {

ForeignModel Read(ForeignConfig& config) {
  LlamaLike like = ReadLlama(config);
  like.attention.window = ReadWindow(config);
  const std::vector<Attention> layers(static_cast<size_t>(like.layers), like.attention);
  return FinishLlamaLike(std::move(like), layers);
}

}  // namespace

ForeignFamily HfMistral() {
  return {.model_type = "mistral",
          .summary = "Mistral 7B and its descendants",
          .read = Read};
}

}  // namespace mnemon
