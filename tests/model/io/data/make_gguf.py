#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the GGUF files of this folder by PyPI's gguf 0.19.0, and what they must be read as.

    make_gguf.py tests/model/io/data/gguf             # needs numpy, gguf and safetensors

blocks.gguf has a tensor for each type of blocks, X, and its numbers in float32 by gguf.quants.dequantize, X.expected. K
types are of random bytes, the others of random numbers, both with the extremes of their scales. ARCHITECTURE.gguf is a
small model with random weights, laid out as llama.cpp's convert_hf_to_gguf.py lays them out; ARCHITECTURE.safetensors
has its tensors as Hugging Face's libraries name and order them, and ARCHITECTURE.json its config.json.
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, GGMLQuantizationType as Q, TokenType
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

D, H, G, K, F, V, CONTEXT = 32, 2, 1, 8, 32, 16, 24
SMALL = [Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0]
LARGE = {Q.Q4_K: 144, Q.Q5_K: 176, Q.Q6_K: 210}
rng = np.random.default_rng(7)


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def blocks(out):
    w = GGUFWriter(str(out / "blocks.gguf"), "none")

    def add(name, data, kind):
        w.add_tensor(name, data, raw_dtype=kind)
        w.add_tensor(name + ".expected", dequantize(data, kind).astype(np.float32).reshape(-1))

    numbers = random(4, 32)
    numbers[1] *= 1e-6  # scales that are subnormal in binary16
    numbers[2] = 0
    numbers[3] *= -1000
    for kind in SMALL:
        add(kind.name, quantize(numbers, kind), kind)
    for kind, size in LARGE.items():
        raw = rng.integers(0, 256, (2, size), dtype=np.uint8)
        scales = np.array([[0.0625, -3.5], [6e-8, 1e-5]], dtype=np.float16)
        raw[:, :4] = scales.view(np.uint8)
        if kind == Q.Q6_K:
            raw[:, -2:] = scales[:, :1].view(np.uint8)
        add(kind.name, raw.reshape(1, -1), kind)
    w.add_tensor("F32", random(5))
    half = np.array([0, -0.0, 1, -65504, 6e-8, 0.1], dtype=np.float16)
    w.add_tensor("F16", half)
    w.add_tensor("F16.expected", half.astype(np.float32))
    narrow = quantize(random(2, 3), Q.BF16)
    add("BF16", narrow, Q.BF16)
    close(w)


def close(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def neighbours(w, heads):
    """Two halves of each head -> pairs of neighbours, as LlamaModel.permute."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def halves(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


class Model:
    def __init__(self, out, name, kind):
        self.out, self.name, self.kind = out, name, kind
        self.w = GGUFWriter(str(out / f"{name}.gguf"), name)
        self.expected, self.layers = {}, 2 if name == "gemma3" else 1

    def add(self, ours, theirs, shape, there=lambda x: x, back=lambda x: x):
        """`there`: from Hugging Face's layout to the file's; `back` undoes it."""
        data = np.ascontiguousarray(there(random(*shape)))
        if len(shape) == 2 and data.shape[-1] % 32 == 0:
            raw = quantize(data, self.kind)
            self.w.add_tensor(ours, raw, raw_dtype=self.kind)
            data = dequantize(raw, self.kind)
        else:
            self.w.add_tensor(ours, data)
        self.expected[theirs] = np.ascontiguousarray(back(data.astype(np.float32)))

    def sizes(self):
        w = self.w
        w.add_context_length(CONTEXT)
        w.add_embedding_length(D)
        w.add_block_count(self.layers)
        w.add_feed_forward_length(F)
        w.add_head_count(H)

    def close(self, config):
        w = self.w
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_eot_token_id(3)
        w.add_name("a small model")
        config = {"bos_token_id": 1, "eos_token_id": [2, 3], "vocab_size": V, **config}
        close(w)
        save_file(self.expected, str(self.out / f"{self.name}.safetensors"))
        (self.out / f"{self.name}.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def llama_like(out, name, kind, tied, model_type=None, shift=0.0):
    m = Model(out, name, kind)
    m.sizes()
    w = m.w
    w.add_head_count_kv(G)
    w.add_key_length(K)
    w.add_value_length(K)
    w.add_rope_dimension_count(K)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(50000.0)
    gemma = name == "gemma3"

    def norm(ours, theirs, size=D):
        m.add(ours, theirs, [size], lambda x: x + np.float32(shift), lambda x: x - np.float32(shift))

    m.add("token_embd.weight", "model.embed_tokens.weight", [V, D])
    norm("output_norm.weight", "model.norm.weight")
    if not tied:
        m.add("output.weight", "lm_head.weight", [V, D])
    for i in range(m.layers):
        a, b = f"blk.{i}.", f"model.layers.{i}."
        norm(a + "attn_norm.weight", b + "input_layernorm.weight")
        for part, heads in (("q", H), ("k", G), ("v", G)):
            turned = name == "llama" and part != "v"
            there = (lambda x, h=heads: neighbours(x, h)) if turned else (lambda x: x)
            back = (lambda x, h=heads: halves(x, h)) if turned else (lambda x: x)
            m.add(f"{a}attn_{part}.weight", f"{b}self_attn.{part}_proj.weight", [heads * K, D], there, back)
            if name in ("llama", "qwen2"):
                m.add(f"{a}attn_{part}.bias", f"{b}self_attn.{part}_proj.bias", [heads * K], there, back)
        m.add(a + "attn_output.weight", b + "self_attn.o_proj.weight", [D, H * K])
        if name == "llama":
            m.add(a + "attn_output.bias", b + "self_attn.o_proj.bias", [D])
        if name in ("qwen3", "gemma3"):
            norm(a + "attn_q_norm.weight", b + "self_attn.q_norm.weight", K)
            norm(a + "attn_k_norm.weight", b + "self_attn.k_norm.weight", K)
        if gemma:
            norm(a + "post_attention_norm.weight", b + "post_attention_layernorm.weight")
            norm(a + "ffn_norm.weight", b + "pre_feedforward_layernorm.weight")
            norm(a + "post_ffw_norm.weight", b + "post_feedforward_layernorm.weight")
        else:
            norm(a + "ffn_norm.weight", b + "post_attention_layernorm.weight")
        for part in ("gate", "up"):
            m.add(f"{a}ffn_{part}.weight", f"{b}mlp.{part}_proj.weight", [F, D])
        m.add(a + "ffn_down.weight", b + "mlp.down_proj.weight", [D, F])
    config = {"model_type": model_type or name, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": m.layers,
              "num_attention_heads": H, "num_key_value_heads": G, "head_dim": K, "max_position_embeddings": CONTEXT,
              "rms_norm_eps": 1e-5, "rope_theta": 50000.0, "rope_scaling": None, "tie_word_embeddings": tied}
    return m, config


def llama(out):
    m, config = llama_like(out, "llama", Q.Q8_0, tied=False)
    m.w.add_file_type(7)
    m.w.add_vocab_size(V)
    low, high, factor, context = 1.0, 4.0, 8.0, 24
    factors = []
    for i in range(K // 2):  # as generate_extra_tensors of LlamaModel
        wavelength = 2 * math.pi * 50000.0 ** (2 * i / K)
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    assert 1 < factors[0] < factor, factors
    m.w.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    m.w.add_tokenizer_model("llama")
    m.w.add_token_list(["<unk>", "<s>", "</s>", "<e>", "<0x0A>", "\u2581a", "\u2581", "a", "b", "ab", "\u2581ab", "c",
                        "d", "e", "f", "abc"])
    m.w.add_token_scores([float(x) for x in (0, 0, 0, 0, 0, -5, -9, -9, -9, -1, -3, -9, -9, -9, -9, -2)])
    m.w.add_token_types([TokenType.UNKNOWN] + [TokenType.CONTROL] * 3 + [TokenType.BYTE] + [TokenType.NORMAL] * 11)
    m.w.add_unk_token_id(0)
    m.w.add_chat_template("{{ messages }}")
    m.close({**config, "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "attention_bias": True, "mlp_bias": False,
             "rope_scaling": {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high,
                              "original_max_position_embeddings": context}})


def qwen2(out):
    m, config = llama_like(out, "qwen2", Q.Q4_1, tied=True)
    m.w.add_string("qwen2.rope.scaling.type", "yarn")
    m.w.add_rope_scaling_factor(4.0)
    m.w.add_rope_scaling_orig_ctx_len(16)
    m.w.add_tokenizer_model("another")
    m.close({**config, "architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu", "use_sliding_window": False,
             "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32.0,
                              "beta_slow": 1.0}})


def qwen3(out):
    m, config = llama_like(out, "qwen3", Q.Q5_0, tied=True)
    m.close({**config, "architectures": ["Qwen3ForCausalLM"], "hidden_act": "silu", "use_sliding_window": False,
             "attention_bias": False})


def gemma3(out):
    m, config = llama_like(out, "gemma3", Q.Q4_0, tied=True, model_type="gemma3_text", shift=1.0)
    m.w.add_sliding_window(4)
    m.w.add_sliding_window_pattern([True, False])
    m.w.add_rope_freq_base_swa(2000.0)
    m.w.add_float32("gemma3.attention.scale", 24 ** -0.5)
    m.w.add_string("gemma3.rope.scaling.type", "linear")
    m.w.add_rope_scaling_factor(8.0)
    m.close({**config, "architectures": ["Gemma3ForCausalLM"], "hidden_activation": "gelu_pytorch_tanh",
             "rope_local_base_freq": 2000.0, "query_pre_attn_scalar": 24.0, "sliding_window": 4, "attention_bias": False,
             "layer_types": ["sliding_attention", "full_attention"],
             "rope_scaling": {"rope_type": "linear", "factor": 8.0}})


def gpt2(out):
    m = Model(out, "gpt2", Q.Q5_1)
    m.sizes()
    m.w.add_layer_norm_eps(1e-3)
    turn = np.transpose
    m.add("token_embd.weight", "transformer.wte.weight", [V, D])
    m.add("position_embd.weight", "transformer.wpe.weight", [CONTEXT, D])
    for kind in ("weight", "bias"):
        m.add(f"output_norm.{kind}", f"transformer.ln_f.{kind}", [D])
    for i in range(m.layers):
        a, b = f"blk.{i}.", f"transformer.h.{i}."
        for ours, theirs in (("attn_norm", "ln_1"), ("ffn_norm", "ln_2")):
            for kind in ("weight", "bias"):
                m.add(f"{a}{ours}.{kind}", f"{b}{theirs}.{kind}", [D])
        for ours, theirs, rows, columns in (("attn_qkv", "attn.c_attn", D, 3 * D), ("attn_output", "attn.c_proj", D, D),
                                            ("ffn_up", "mlp.c_fc", D, F), ("ffn_down", "mlp.c_proj", F, D)):
            m.add(f"{a}{ours}.weight", f"{b}{theirs}.weight", [rows, columns], turn, turn)
            m.add(f"{a}{ours}.bias", f"{b}{theirs}.bias", [columns])
    m.close({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": D, "n_inner": F, "n_layer": m.layers, "n_head": H,
             "n_positions": CONTEXT, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-3,
             "tie_word_embeddings": True})


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for make in (blocks, llama, qwen2, qwen3, gemma3, gpt2):
        make(out)


if __name__ == "__main__":
    main()
