// SPDX-License-Identifier: MIT
// What the decoders have in common that descend from Llama ("LLaMA", Touvron et al.,
// 2023): RMS norms ahead of attention with rotary positions and of a gated feed-forward
// block,
//   y = x + W_o attend(rms(x)),  x' = y + W_down(act(W_gate rms(y)) * (W_up rms(y)))
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/families/foreign.h"

namespace mnemon {

// The rotary positions of a file, of either form: rope_parameters, or rope_theta and
// rope_scaling; `section` those of a kind of layers within the former. On heads of
// `width`, in a model of `context` positions.
Rotary ReadRotary(ForeignConfig& config, int64_t width, int64_t context);
Rotary ReadRotarySection(ForeignConfig section, double theta, int64_t width,
                         int64_t context);

// How many layers, and what each has, before a family changes it.
struct LlamaLike {
  ModelDescription description;
  Attention attention;
  FeedForward feed;
  Norm norm;
  int64_t layers = 0;
};
// The sizes, and what the norms are. `head_width`: where the file has none; none: D /
// H.
LlamaLike ReadLlamaSizes(ForeignConfig& config, std::optional<int64_t> head_width = {});
// That, and what llama and most others name alike: biases, activation, positions.
LlamaLike ReadLlama(ForeignConfig& config, std::optional<int64_t> head_width = {});
// As of Attention::window, from sliding_window, which counts the token itself.
std::optional<int64_t> ReadWindow(ForeignConfig& config);
// The attention of each layer, some of them with a window: by layer_types, else by
// use_sliding_window and max_window_layers, else by sliding_window_pattern.
std::vector<Attention> WindowedLayers(ForeignConfig& config, const LlamaLike& like);
// The layers of the description, and the whole table of tensors. `names`: of norms.
struct LlamaNames {
  std::string feed_norm = "post_attention_layernorm";
  std::string behind_attention = {}, behind_feed = {};  // empty: none
};
ForeignModel FinishLlamaLike(LlamaLike like, const std::vector<Attention>& attention,
                             const LlamaNames& names = {});

}  // namespace mnemon
