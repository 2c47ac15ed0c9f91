# SPDX-License-Identifier: MIT
"""A causal checkpoint as the file that llama.cpp reads: its architecture gpt2, every matrix
in one of FORMATS, all else in float32. A tied embedding is the head as well, and so a
matrix.
"""

import dataclasses

FORMATS = {"F32": "ALL_F32", "BF16": "MOSTLY_BF16", "Q8_0": "MOSTLY_Q8_0",
           "Q4_0": "MOSTLY_Q4_0"}  # and what the file calls itself
MATRICES = {"query", "key", "value", "output", "in", "out"}  # of a layer


def _quantizers(file_format):
    """To the format, as the file holds it, and back: the kind and two functions."""
    import gguf

    kind = gguf.GGMLQuantizationType[file_format]
    return (kind, lambda matrix: gguf.quants.quantize(matrix.contiguous().numpy(), kind),
            lambda stored: gguf.quants.dequantize(stored, kind))


def rounded(checkpoint, file_format):
    """The checkpoint with the weights that the file holds."""
    import torch

    _, store, widen = _quantizers(file_format)
    head = "embed.weight" if checkpoint.config["tie_head"] else "head.weight"

    def is_matrix(name):
        return name == head or (name.startswith("layers.") and name.endswith(".weight")
                                and name.split(".")[-2] in MATRICES)

    return dataclasses.replace(checkpoint, weights={
        name: torch.from_numpy(widen(store(weight))) if is_matrix(name) else weight
        for name, weight in checkpoint.weights.items()})


def write(checkpoint, path, file_format):
    import gguf
    import torch

    c = checkpoint.config
    weights = checkpoint.weights
    kind, store, _ = _quantizers(file_format)
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_block_count(c["layers"])
    writer.add_context_length(c["positions"])
    writer.add_embedding_length(c["d_model"])
    writer.add_feed_forward_length(c["d_ff"])
    writer.add_head_count(c["heads"])
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(c["vocab"])
    writer.add_file_type(gguf.LlamaFileType[FORMATS[file_format]])
    writer.add_tokenizer_model("none")

    def add(name, tensor):
        writer.add_tensor(name, tensor.contiguous().numpy())

    def add_matrix(name, tensor):
        writer.add_tensor(name, store(tensor), raw_dtype=kind)

    def norm(theirs, ours):
        for part in ("weight", "bias"):
            add(f"{theirs}.{part}", weights[f"{ours}.{part}"])

    def linear(theirs, *ours):
        for part, put in (("weight", add_matrix), ("bias", add)):
            put(f"{theirs}.{part}", torch.cat([weights[f"{name}.{part}"] for name in ours]))

    (add_matrix if c["tie_head"] else add)("token_embd.weight", checkpoint.embedding)
    add("position_embd.weight", checkpoint.absolute_positions())
    norm("output_norm", "norm")
    if not c["tie_head"]:
        add_matrix("output.weight", checkpoint.head_weight)
    for i in range(c["layers"]):
        ours = f"layers.{i}"
        norm(f"blk.{i}.attn_norm", f"{ours}.attn.norm")
        linear(f"blk.{i}.attn_qkv",
               *(f"{ours}.attn.{part}" for part in ("query", "key", "value")))
        linear(f"blk.{i}.attn_output", f"{ours}.attn.output")
        norm(f"blk.{i}.ffn_norm", f"{ours}.ff.norm")
        linear(f"blk.{i}.ffn_up", f"{ours}.ff.in")
        linear(f"blk.{i}.ffn_down", f"{ours}.ff.out")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
