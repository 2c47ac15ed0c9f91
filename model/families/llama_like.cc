// SPDX-License-Identifier: MIT
#include "model/families/llama_like.h"

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "model/compute/functions.h"

namespace mnemon {
namespace {

// Width of the rotated part of heads of `width`.
int64_t TurnedWidth(ForeignConfig& config, int64_t width) {
  const double part = config.Number("partial_rotary_factor", 1.0);
  if (part > 0 && part <= 1) {
    return static_cast<int64_t>(static_cast<double>(width) * part);
  }
  config.Refuse("partial_rotary_factor", "above 0, up to 1");
  return width;
}

YarnScaling ReadYarn(ForeignConfig& section, double context, Rotary& rotary) {
  YarnScaling yarn;
  yarn.factor = section.Number("factor");
  yarn.context = section.Number("original_max_position_embeddings", context);
  yarn.fast = section.Number("beta_fast", 32.0);
  yarn.slow = section.Number("beta_slow", 1.0);
  if (!section.Flag("truncate", true)) section.Refuse("truncate", "true");
  const auto magnitude = [&](double scale) {
    return yarn.factor <= 1 ? 1.0 : 0.1 * scale * numerics::Log(yarn.factor) + 1.0;
  };
  double otherwise = magnitude(1);
  const double scale = section.Number("mscale", 0.0);
  const double all = section.Number("mscale_all_dim", 0.0);
  if (scale != 0 && all != 0) otherwise = magnitude(scale) / magnitude(all);
  rotary.magnitude = section.Number("attention_factor", otherwise);
  return yarn;
}

}  // namespace

Rotary ReadRotarySection(ForeignConfig section, double theta, int64_t width,
                         int64_t context) {
  Rotary rotary;
  rotary.theta = section.Number("rope_theta", theta);
  rotary.width = TurnedWidth(section, width);
  const std::string old = section.Text("type", "default");
  const std::string type = section.Text("rope_type", old);
  const char* const key = section.Has("rope_type") ? "rope_type" : "type";
  if (type == "linear") {
    rotary.scaling = LinearScaling{.factor = section.Number("factor")};
    section.Ignore({"original_max_position_embeddings"});
  } else if (type == "llama3") {
    rotary.scaling =
        Llama3Scaling{.factor = section.Number("factor"),
                      .low = section.Number("low_freq_factor"),
                      .high = section.Number("high_freq_factor"),
                      .context = section.Number("original_max_position_embeddings")};
  } else if (type == "yarn") {
    rotary.scaling = ReadYarn(section, static_cast<double>(context), rotary);
  } else if (type != "default") {
    section.Refuse(key, "default, linear, llama3, yarn (others depend on the length)");
  }
  return rotary;
}

Rotary ReadRotary(ForeignConfig& config, int64_t width, int64_t context) {
  if (config.Has("rope_parameters")) {
    return ReadRotarySection(config.Section("rope_parameters"), 10000.0, width,
                             context);
  }
  const double theta = config.Number("rope_theta", 10000.0);
  const int64_t turned = TurnedWidth(config, width);
  Rotary rotary =
      ReadRotarySection(config.Section("rope_scaling"), theta, width, context);
  rotary.width = turned;
  return rotary;
}

LlamaLike ReadLlamaSizes(ForeignConfig& config, std::optional<int64_t> head_width) {
  LlamaLike like;
  ModelDescription& model = like.description;
  model.width = config.Integer("hidden_size");
  model.vocab = config.Integer("vocab_size");
  model.context = config.Integer("max_position_embeddings");
  like.layers = ReadLayers(config, "num_hidden_layers");
  like.norm = {.kind = Norm::Kind::kRms, .eps = config.Number("rms_norm_eps", 1e-6)};
  model.head = {.norm = like.norm,
                .tied = config.Flag("tie_word_embeddings", false),
                .bias = false};
  Attention& attention = like.attention;
  attention.heads = config.Integer("num_attention_heads");
  attention.groups = config.Integer("num_key_value_heads", attention.heads);
  const int64_t share =
      attention.heads > 0 ? model.width / attention.heads : model.width;
  attention.width = config.Integer("head_dim", head_width.value_or(share));
  like.feed = {
      .hidden = config.Integer("intermediate_size"), .gated = true, .bias = false};
  return like;
}

LlamaLike ReadLlama(ForeignConfig& config, std::optional<int64_t> head_width) {
  LlamaLike like = ReadLlamaSizes(config, head_width);
  const bool biases = config.Flag("attention_bias", false);
  like.attention.biases = {biases, biases, biases, biases};
  like.attention.positions =
      ReadRotary(config, like.attention.width, like.description.context);
  like.feed.activation = ReadActivation(config, "hidden_act", "silu");
  like.feed.bias = config.Flag("mlp_bias", false);
  return like;
}

std::optional<int64_t> ReadWindow(ForeignConfig& config) {
  if (!config.Has("sliding_window")) {
    config.Ignore({"sliding_window"});
    return std::nullopt;
  }
  const int64_t window = config.Integer("sliding_window");
  if (window >= 1) return window - 1;
  config.Refuse("sliding_window", "null, or 1 and more");
  return std::nullopt;
}

std::vector<Attention> WindowedLayers(ForeignConfig& config, const LlamaLike& like) {
  std::vector<Attention> layers(static_cast<size_t>(like.layers), like.attention);
  const bool may = config.Flag("use_sliding_window", true);
  const std::optional<int64_t> window = ReadWindow(config);
  const int64_t from = config.Integer("max_window_layers", 28);
  const bool patterned =
      config.Has("sliding_window_pattern") || config.Has("_sliding_window_pattern");
  const int64_t every = config.Integer(
      "sliding_window_pattern", config.Integer("_sliding_window_pattern", int64_t{6}));
  const std::vector<std::string> types = config.Texts("layer_types");
  if (!types.empty() && types.size() != layers.size()) {
    config.Refuse("layer_types", "one for each layer");
    return layers;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    bool slides = may && window && index >= from;
    if (patterned) slides = every > 0 && (index + 1) % every != 0;
    if (!types.empty()) {
      slides = types[i] == "sliding_attention";
      if (!slides && types[i] != "full_attention") {
        config.Refuse("layer_types", "full_attention, sliding_attention");
        return layers;
      }
    }
    if (!slides) continue;
    if (!window) {
      config.Refuse("sliding_window", "a number, as some layers have windows");
      return layers;
    }
    layers[i].window = window;
  }
  return layers;
}

ForeignModel FinishLlamaLike(LlamaLike like, const std::vector<Attention>& attention,
                             const LlamaNames& names) {
  ForeignModel model{.description = std::move(like.description), .tensors = {}};
  ModelDescription& description = model.description;
  for (const Attention& one : attention) {
    std::vector<SubLayer>& layer = description.layers.emplace_back();
    layer.push_back({.name = "attn", .norm = like.norm, .block = one});
    layer.push_back({.name = "ff", .norm = like.norm, .block = like.feed});
    if (!names.behind_attention.empty()) layer[0].behind = like.norm;
    if (!names.behind_feed.empty()) layer[1].behind = like.norm;
  }
  if (!CheckDescription(description).ok()) return model;  // with the faults
  for (const TensorShape& tensor : TensorsOf(description)) {
    std::string base = tensor.name;
    const size_t dot = base.rfind('.');
    const std::string suffix = base.substr(dot);
    base.resize(dot);
    std::string foreign;
    if (base == "embed") {
      foreign = "model.embed_tokens";
    } else if (base == "norm") {
      foreign = "model.norm";
    } else if (base == "head") {
      foreign = "lm_head";
    } else {
      const size_t part = base.find('.', base.find('.') + 1);
      const std::string of = base.substr(part + 1);
      const std::pair<std::string_view, std::string> kParts[] = {
          {"attn.norm", "input_layernorm"},
          {"attn.query", "self_attn.q_proj"},
          {"attn.key", "self_attn.k_proj"},
          {"attn.value", "self_attn.v_proj"},
          {"attn.output", "self_attn.o_proj"},
          {"attn.query_norm", "self_attn.q_norm"},
          {"attn.key_norm", "self_attn.k_norm"},
          {"attn.behind_norm", names.behind_attention},
          {"ff.norm", names.feed_norm},
          {"ff.in", "mlp.gate_proj"},
          {"ff.factor", "mlp.up_proj"},
          {"ff.out", "mlp.down_proj"},
          {"ff.behind_norm", names.behind_feed}};
      for (const auto& [ours, theirs] : kParts) {
        if (of == ours) foreign = StrCat("model.", base.substr(0, part + 1), theirs);
      }
    }
    model.tensors.push_back(TensorRecipe::As(foreign + suffix, tensor));
  }
  model.ignored = {".rotary_emb.inv_freq"};
  if (description.head.tied) model.ignored.emplace_back("lm_head.weight");
  return model;
}

}  // namespace mnemon
