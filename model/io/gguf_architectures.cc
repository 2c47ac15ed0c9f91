// SPDX-License-Identifier: MIT
#include "model/io/gguf_architectures.h"

namespace mnemon {
namespace {

constexpr Renamed kLlamaTop[] = {{"token_embd", "model.embed_tokens"},
                                 {"output_norm", "model.norm"},
                                 {"output", "lm_head"}};
constexpr Renamed kLlamaLayer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
constexpr Renamed kLlamaNorms[] = {{"ffn_norm", "post_attention_layernorm"}};
constexpr Renamed kGemmaNorms[] = {{"ffn_norm", "pre_feedforward_layernorm"},
                                   {"post_attention_norm", "post_attention_layernorm"},
                                   {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Renamed kGpt2Top[] = {{"token_embd", "transformer.wte"},
                                {"position_embd", "transformer.wpe"},
                                {"output_norm", "transformer.ln_f"},
                                {"output", "lm_head"}};
constexpr Renamed kGpt2Layer[] = {{"attn_qkv", "attn.c_attn"},
                                  {"attn_output", "attn.c_proj"},
                                  {"ffn_up", "mlp.c_fc"},
                                  {"ffn_down", "mlp.c_proj"}};
constexpr Renamed kGpt2Norms[] = {{"attn_norm", "ln_1"}, {"ffn_norm", "ln_2"}};

constexpr GgufArchitecture kGgufArchitectures[] = {
    {.name = "llama",
     .model_type = "llama",
     .library_class = "LlamaForCausalLM",
     .top = kLlamaTop,
     .layer = kLlamaLayer,
     .norms = kLlamaNorms,
     .turned = true,
     .feed_biases = true},
    {.name = "qwen2",
     .model_type = "qwen2",
     .library_class = "Qwen2ForCausalLM",
     .top = kLlamaTop,
     .layer = kLlamaLayer,
     .norms = kLlamaNorms,
     .always_biased = true,
     .may_slide = true},
    {.name = "qwen3",
     .model_type = "qwen3",
     .library_class = "Qwen3ForCausalLM",
     .top = kLlamaTop,
     .layer = kLlamaLayer,
     .norms = kLlamaNorms,
     .may_slide = true},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .library_class = "Gemma3ForCausalLM",
     .top = kLlamaTop,
     .layer = kLlamaLayer,
     .norms = kGemmaNorms,
     .own_windows = true},
    {.name = "gpt2",
     .model_type = "gpt2",
     .library_class = "GPT2LMHeadModel",
     .top = kGpt2Top,
     .layer = kGpt2Layer,
     .norms = kGpt2Norms,
     .layers = "transformer.h.",
     .learned_positions = true}};

}  // namespace

std::span<const GgufArchitecture> GgufArchitectures() { return kGgufArchitectures; }

}  // namespace mnemon
