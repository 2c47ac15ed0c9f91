// SPDX-License-Identifier: MIT
// Names of the tensors of model.safetensors in our families; for any description see
// TensorsOf (model/description). Import maps foreign names to these. Linear weights are
// [out, in].
//
//   embed.weight                    [V, D]     token embedding
//   positions.weight                [P, D]     causal and encoder, learned positions
//   memory.mix                      [L+1]      feedback: layer mix before softmax
//   memory.{key,value}.weight       [D, D]     feedback with a shared projection
//   layers.{i}.attn.norm            [D]        fast_weights never applies it
//   layers.{i}.attn.{query,key,value}.weight  [D, D]
//   layers.{i}.attn.{query,key,value}.bias    [D]  those that the architecture has
//   layers.{i}.attn.gate.weight     [H, D]     fast_weights with the delta rule
//   layers.{i}.attn.relative_key    [R, H, K]  R of the papers; R = P or 2P rows
//   layers.{i}.attn.relative_bias   [R, H]     S; absent when tied
//   layers.{i}.attn.query_bias      [H, K]     u
//   layers.{i}.attn.output          [D, D]
//   layers.{i}.ff.norm              [D]
//   layers.{i}.ff.in                [F, D]
//   layers.{i}.ff.factor            [F, D]     gated
//   layers.{i}.ff.out               [D, F]
//   head.in                         [D, D]     encoder
//   norm                            [D]        before the head; encoder: inside it
//   head                            [V, D]     absent with tie_head
//   logits.norm                     [V]        encoder with norm_logits
//
// norm, output, in, factor, out and head stand for a .weight of that shape and a .bias
// of its first dimension. In an int8 checkpoint, each int8 matrix x.weight has a tensor
// x.weight.scale [out].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mnemon::names {

inline constexpr char kEmbed[] = "embed";
inline constexpr char kPositions[] = "positions";
inline constexpr char kMemoryMix[] = "memory.mix";
inline constexpr char kMemoryKey[] = "memory.key";
inline constexpr char kMemoryValue[] = "memory.value";
inline constexpr char kNorm[] = "norm";
inline constexpr char kHeadIn[] = "head.in";
inline constexpr char kHead[] = "head";
inline constexpr char kLogitsNorm[] = "logits.norm";

// Names below "layers.{i}.".
inline constexpr char kAttnNorm[] = "attn.norm";
inline constexpr char kQuery[] = "attn.query";
inline constexpr char kKey[] = "attn.key";
inline constexpr char kValue[] = "attn.value";
inline constexpr char kGate[] = "attn.gate";
inline constexpr char kRelativeKey[] = "attn.relative_key";
inline constexpr char kRelativeBias[] = "attn.relative_bias";
inline constexpr char kQueryBias[] = "attn.query_bias";
inline constexpr char kOutput[] = "attn.output";
inline constexpr char kFfNorm[] = "ff.norm";
inline constexpr char kFfIn[] = "ff.in";
inline constexpr char kFfFactor[] = "ff.factor";
inline constexpr char kFfOut[] = "ff.out";

inline std::string Layer(int64_t i, const char* part) {
  return "layers." + std::to_string(i) + "." + part;
}
inline std::string Weight(std::string base) { return base.append(".weight"); }
inline std::string Bias(std::string base) { return base.append(".bias"); }
// `weight` is the name of a matrix, with its ".weight".
inline std::string Scale(std::string weight) { return weight.append(".scale"); }
// `base` is the name of a matrix, with or without "layers.{i}.".
inline bool IsAttention(std::string_view base) {
  return base.find("attn.") != std::string_view::npos;
}
inline bool IsScale(std::string_view name) { return name.ends_with(".weight.scale"); }

}  // namespace mnemon::names
