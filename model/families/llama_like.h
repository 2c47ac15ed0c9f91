// SPDX-License-Identifier: MIT
// Common parts of decoders that descend from Llama ("LLaMA", Touvron et al., 2023): RMS
// norms before attention with rotary positions and before a gated feed-forward block,
//   y = x + W_o attend(rms(x)),  x' = y + W_down(act(W_gate rms(y)) * (W_up rms(y)))
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/families/foreign.h"

namespace mnemon {

// The rotary positions of a file, in either form: rope_parameters, or rope_theta and
// rope_scaling. `section`: key of a kind of layers within the former. For heads of
// `width`, in a model of `context` positions.
Rotary ReadRotary(ForeignConfig& config, int64_t width, int64_t context);
Rotary ReadRotarySection(ForeignConfig section, double theta, int64_t width,
                         int64_t context);

// Number of layers, and the settings of each, before a family changes them.
struct LlamaLike {
  ModelDescription description;
  Attention attention;
  FeedForward feed;
  Norm norm;
  int64_t layers = 0;
};
// Sizes and norms. `head_width`: default if the file has none; none: D / H.
LlamaLike ReadLlamaSizes(ForeignConfig& config, std::optional<int64_t> head_width = {});
// The same, plus settings that llama and most others name alike: biases, activation,
// positions.
LlamaLike ReadLlama(ForeignConfig& config, std::optional<int64_t> head_width = {});
// Attention::window from sliding_window, which counts the token itself.
std::optional<int64_t> ReadWindow(ForeignConfig& config);
// The attention of each layer, some with a window: by layer_types, else by
// use_sliding_window and max_window_layers, else by sliding_window_pattern.
std::vector<Attention> WindowedLayers(ForeignConfig& config, const LlamaLike& like);
// The layers of the description, and the whole table of tensors. `names`: names of
// norms.
struct LlamaNames {
  std::string feed_norm = "post_attention_layernorm";
  std::string behind_attention = {}, behind_feed = {};  // empty: none
};
ForeignModel FinishLlamaLike(LlamaLike like, const std::vector<Attention>& attention,
                             const LlamaNames& names = {});

}  // namespace mnemon
