// SPDX-License-Identifier: MIT
// model_type gemma3_text: norms with 1 + weight, also after each block and on the heads
// of queries and keys; windows in most layers, whose rotary positions have their own
// theta; the embedding times sqrt(D) ("Gemma 3 Technical Report", 2025).
#include <cmath>

#include "model/families/foreign_table.h"
#include "model/families/llama_like.h"

namespace mnemon {
namespace {

ForeignModel Read(ForeignConfig& config) {
  LlamaLike like = ReadLlamaSizes(config, 256);
  like.norm.one_plus = true;
  ModelDescription& model = like.description;
  model.head.norm = like.norm;
  model.head.tied = config.Flag("tie_word_embeddings", true);
  model.embedding.scale = std::sqrt(static_cast<float>(model.width));
  const bool biases = config.Flag("attention_bias", false);
  like.attention.biases = {biases, biases, biases, biases};
  like.attention.query_norm = like.attention.key_norm = like.norm;
  like.attention.scale = 1.0 / std::sqrt(config.Number("query_pre_attn_scalar", 256.0));
  like.feed.activation = Activation::kGeluTanh;
  if (config.Text("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh") {
    config.Refuse("hidden_activation", "gelu_pytorch_tanh");
  }
  if (config.Has("attn_logit_softcapping")) {
    like.attention.cap = config.Number("attn_logit_softcapping");
  }
  if (config.Has("final_logit_softcapping")) {
    model.head.cap = config.Number("final_logit_softcapping");
  }
  config.RefuseIfSet({"use_bidirectional_attention"});
  const int64_t width = like.attention.width;
  Rotary full, sliding;
  if (config.Has("rope_parameters")) {
    ForeignConfig kinds = config.Section("rope_parameters");
    full =
        ReadRotarySection(kinds.Section("full_attention"), 1e6, width, model.context);
    sliding = ReadRotarySection(kinds.Section("sliding_attention"), 1e4, width,
                                model.context);
  } else {
    full = ReadRotary(config, width, model.context);
    full.theta = config.Number("rope_theta", 1e6);
    sliding = {.width = width, .theta = config.Number("rope_local_base_freq", 1e4)};
  }
  std::vector<Attention> layers = WindowedLayers(config, like);
  for (Attention& layer : layers) layer.positions = layer.window ? sliding : full;
  return FinishLlamaLike(std::move(like), layers,
                         {.feed_norm = "pre_feedforward_layernorm",
                          .behind_attention = "post_attention_layernorm",
                          .behind_feed = "post_feedforward_layernorm"});
}

}  // namespace

ForeignFamily HfGemma3Text() {
  return {.model_type = "gemma3_text", .summary = "Gemma 3, text alone", .read = Read};
}

}  // namespace mnemon
