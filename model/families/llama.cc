// SPDX-License-Identifier: MIT
// A decoder in the form of Llama ("LLaMA: Open and Efficient Foundation Language
// Models", Touvron et al., 2023): RMS norms before attention with rotary positions and
// before a feed-forward block gated with SiLU, no biases. Heads may share keys and
// values.
#include "base/strings.h"
#include "model/families/families.h"
#include "model/families/field_check.h"
#include "model/families/frame.h"
#include "model/families/table.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

absl::Status Validate(const ModelConfig& config) {
  FieldCheck check(config, {"positions", "tie_head", "kv_heads"});
  if (config.heads > 0) {
    check.Require(config.kv_heads == 0 || config.heads % config.kv_heads == 0,
                  "kv_heads", StrCat("0 or a divisor of heads (", config.heads, ")"));
    check.Require(config.head_width() % 2 == 0, "d_model",
                  StrCat("an even number times heads (", config.heads, ")"));
  }
  return check.status();
}

ModelDescription Describe(const ModelConfig& c) {
  ModelDescription model = FrameOf(c);
  model.context = c.positions;
  const Norm norm = {.kind = Norm::Kind::kRms};
  model.head.norm = norm;
  model.head.bias = false;
  const Attention attention{.heads = c.heads,
                            .groups = c.kv_heads > 0 ? c.kv_heads : c.heads,
                            .width = c.head_width(),
                            .positions = Rotary{.width = c.head_width()}};
  const FeedForward feed{
      .hidden = c.d_ff, .activation = Activation::kSilu, .gated = true, .bias = false};
  const std::vector<SubLayer> layer = {
      {.name = "attn", .norm = norm, .block = attention},
      {.name = "ff", .norm = norm, .block = feed}};
  model.layers.assign(static_cast<size_t>(c.layers), layer);
  return model;
}

ModelConfig Usual() { return {.architecture = "llama", .tie_head = true}; }

// The smallest published one, SmolLM2-135M.
ModelConfig Reference() {
  return {.architecture = "llama",
          .d_model = 576,
          .heads = 9,
          .layers = 30,
          .d_ff = 1536,
          .vocab = 49152,
          .positions = 8192,
          .tie_head = true,
          .kv_heads = 3};
}

std::vector<ModelConfig> Variants() {
  const auto variant = [](int64_t heads, int64_t kv_heads) {
    return ModelConfig{.architecture = "llama",
                       .d_model = 6 * heads,
                       .heads = heads,
                       .layers = 2,
                       .d_ff = 12,
                       .vocab = 7,
                       .positions = 13,
                       .kv_heads = kv_heads,
                       .dropout = 0.2};
  };
  ModelConfig tied = variant(2, 0);
  tied.tie_head = true;
  return {tied, variant(4, 2), variant(3, 1)};
}

std::string AsForeign(const ModelConfig& c) {
  const nlohmann::ordered_json json = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"hidden_size", c.d_model},
      {"intermediate_size", c.d_ff},
      {"num_hidden_layers", c.layers},
      {"num_attention_heads", c.heads},
      {"num_key_value_heads", c.kv_heads > 0 ? c.kv_heads : c.heads},
      {"head_dim", c.head_width()},
      {"vocab_size", c.vocab},
      {"max_position_embeddings", c.positions},
      {"rms_norm_eps", Norm().eps},
      {"rope_theta", Rotary().theta},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"tie_word_embeddings", c.tie_head},
      {"torch_dtype", "float32"}};
  return json.dump(2) + "\n";
}

}  // namespace

Family LlamaFamily() {
  return {.name = "llama",
          .summary = "Llama-like decoder: RMS norms, rotary positions, SiLU gates",
          .validate = Validate,
          .describe = Describe,
          .usual = Usual,
          .reference = Reference,
          .variants = Variants,
          .as_foreign = AsForeign};
}

}  // namespace mnemon
