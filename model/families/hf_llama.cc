// SPDX-License-Identifier: MIT
// model_type llama: Llama 1 to 3, and the many models of the same form.
#include "model/families/foreign_table.h"
#include "model/families/llama_like.h"

namespace mnemon {
namespace {

ForeignModel Read(ForeignConfig& config) {
  LlamaLike like = ReadLlama(config);
  const std::vector<Attention> layers(static_cast<size_t>(like.layers), like.attention);
  return FinishLlamaLike(std::move(like), layers);
}

}  // namespace

ForeignFamily HfLlama() {
  return {.model_type = "llama",
          .summary = "Llama and its descendants: SmolLM2, TinyLlama, many fine-tunes",
          .read = Read};
}

}  // namespace mnemon
