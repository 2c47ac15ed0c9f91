// SPDX-License-Identifier: MIT
// model_type qwen2: as llama, with biases on queries, keys and values ("Qwen2 Technical
// Report", 2024).
#include "model/families/foreign_table.h"
#include "model/families/llama_like.h"

namespace mnemon {
namespace {

ForeignModel Read(ForeignConfig& config) {
  LlamaLike like = ReadLlama(config);
  like.attention.biases = {.query = true, .key = true, .value = true, .output = false};
  const std::vector<Attention> layers = WindowedLayers(config, like);
  return FinishLlamaLike(std::move(like), layers);
}

}  // namespace

ForeignFamily HfQwen2() {
  return {.model_type = "qwen2", .summary = "Qwen2 and Qwen2.5", .read = Read};
}

}  // namespace mnemon
