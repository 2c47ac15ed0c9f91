# SPDX-License-Identifier: MIT
"""llama.cpp, causal only: the same weights as its architecture gpt2, float32 throughout.

Its gpt2 has GELU (tanh form) where the model may have ReLU: its logits are held against
those of mnemon's weights with that activation, which eager PyTorch computes. It has no
bias in the output head: where the model has one, it is added behind it.
"""

import ctypes
import pathlib

from . import Missing, repeat


def _convert(checkpoint, path):
    import gguf
    import torch

    c = checkpoint.config
    weights = checkpoint.weights
    writer = gguf.GGUFWriter(str(path), "gpt2")
    writer.add_block_count(c["layers"])
    writer.add_context_length(c["positions"])
    writer.add_embedding_length(c["d_model"])
    writer.add_feed_forward_length(c["d_ff"])
    writer.add_head_count(c["heads"])
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(c["vocab"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")

    def add(name, tensor):
        writer.add_tensor(name, tensor.contiguous().numpy())

    def both(theirs, ours):
        for kind in ("weight", "bias"):
            add(f"{theirs}.{kind}", weights[f"{ours}.{kind}"])

    add("token_embd.weight", checkpoint.embedding)
    add("position_embd.weight", checkpoint.absolute_positions())
    both("output_norm", "norm")
    if not c["tie_head"]:
        add("output.weight", checkpoint.head_weight)
    for i in range(c["layers"]):
        both(f"blk.{i}.attn_norm", f"layers.{i}.attn.norm")
        for kind in ("weight", "bias"):
            add(f"blk.{i}.attn_qkv.{kind}",
                torch.cat([checkpoint.layer(i, f"attn.{p}.{kind}")
                           for p in ("query", "key", "value")]))
        both(f"blk.{i}.attn_output", f"layers.{i}.attn.output")
        both(f"blk.{i}.ffn_norm", f"layers.{i}.ff.norm")
        both(f"blk.{i}.ffn_up", f"layers.{i}.ff.in")
        both(f"blk.{i}.ffn_down", f"layers.{i}.ff.out")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Llama:
    tolerance = 1e-2  # its GELU looks up half-precision values

    @staticmethod
    def same_as(checkpoint, prompt):
        """What its logits are held against: mnemon's weights with its activation."""
        from .eager import Eager

        return Eager(checkpoint, prompt, 1, gelu=True)

    def __init__(self, checkpoint, prompt, threads):
        if checkpoint.config["architecture"] != "causal":
            raise Missing("runs plain causal models only")
        if checkpoint.absolute_positions() is None:
            raise Missing("converted for absolute positions only")
        if checkpoint.config["tie_head"] and checkpoint.config["embed_scale"]:
            raise Missing("its embedding is its head, so it cannot be scaled")
        try:
            import gguf  # noqa: F401
            import llama_cpp
        except (ImportError, OSError, RuntimeError) as error:
            raise Missing(f"cannot import: {error}") from error
        self.context = self.model = None
        self.lib = llama_cpp
        self.threads = threads
        self.name = f"llama.cpp ({llama_cpp.__version__} of its Python package) F32"
        path = pathlib.Path(checkpoint.directory) / "model.gguf"
        if not path.exists():
            _convert(checkpoint, path)
        self._quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise Missing("did not load the converted model")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = len(prompt) + 64
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = 0  # float32
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise Missing("made no context of the converted model")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.vocab = checkpoint.config["vocab"]
        self.head_bias = checkpoint.head_bias
        self.prompt = prompt
        self.fed = 0

    def __del__(self):
        if getattr(self, "context", None):
            self.lib.llama_free(self.context)
        if getattr(self, "model", None):
            self.lib.llama_model_free(self.model)

    def _feed(self, tokens):
        array = (self.lib.llama_token * len(tokens))(*tokens)
        if self.lib.llama_decode(self.context,
                                 self.lib.llama_batch_get_one(array, len(tokens))):
            raise RuntimeError("llama_decode failed")
        self.fed += len(tokens)

    def _cut(self, count):
        self.lib.llama_memory_seq_rm(self.memory, 0, count, -1)
        self.fed = count

    def logits(self, tokens):
        import numpy

        self._cut(0)
        self._feed(tokens)
        row = self.lib.llama_get_logits_ith(self.context, -1)
        logits = numpy.ctypeslib.as_array(row, shape=(self.vocab,)).copy()
        return logits if self.head_bias is None else logits + self.head_bias.numpy()

    def round(self, seconds):
        if self.fed != len(self.prompt):
            self.logits(self.prompt)
        return repeat(seconds, self._step_after_prompt)

    def _step_after_prompt(self):
        self._feed(self.prompt[:1])
        self.lib.llama_get_logits_ith(self.context, -1)  # waits for the result
        self._cut(len(self.prompt))


def make(checkpoint, prompt, threads):
    return Llama(checkpoint, prompt, threads)
