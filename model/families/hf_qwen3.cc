// SPDX-License-Identifier: MIT
// model_type qwen3: as llama, with RMS norms of the heads of queries and keys ("Qwen3
// Technical Report", 2025).
#include "model/families/foreign_table.h"
#include "model/families/llama_like.h"

namespace mnemon {
namespace {

ForeignModel Read(ForeignConfig& config) {
  LlamaLike like = ReadLlama(config, 128);
  like.attention.query_norm = like.attention.key_norm = like.norm;
  const std::vector<Attention> layers = WindowedLayers(config, like);
  return FinishLlamaLike(std::move(like), layers);
}

}  // namespace

ForeignFamily HfQwen3() {
  return {.model_type = "qwen3", .summary = "Qwen3, dense", .read = Read};
}

}  // namespace mnemon
