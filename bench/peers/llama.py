# SPDX-License-Identifier: MIT
"""llama.cpp, causal only: the same weights as its architecture gpt2, matrices in a format
of gguf_file.py; keys and values are float32.

Its gpt2 has GELU (tanh form) where the model may have ReLU, and Q4_0 is another model
than mnemon's: its logits are held against those of the weights in its file with that
activation, which eager PyTorch computes. It has no bias in the output head: where the
model has one, it is added after it. Sessions are sequences of one context; each has its
own copy of the keys and values.
"""

import ctypes
import pathlib

from . import Missing, gguf_file, repeat


class Llama:
    tolerance = 1e-2  # its GELU looks up half-precision values

    @staticmethod
    def same_as(task):
        """What its logits are held against: the weights of its file, its activation."""
        from .eager import Eager

        return Eager(gguf_file.rounded(task.checkpoint, task.format), task.prompt, 1,
                     gelu=True)

    def __init__(self, task, threads):
        checkpoint = task.checkpoint
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
        most = llama_cpp.llama_max_parallel_sequences()
        if task.batch > most:
            raise Missing(f"holds {most} sequences at most")
        self.context = self.model = self.batch = None
        self.lib = llama_cpp
        self.threads = threads
        self.name = f"llama.cpp ({llama_cpp.__version__} of its Python package)"
        path = pathlib.Path(checkpoint.directory) / f"{task.format}.gguf"
        if not path.exists():
            gguf_file.write(checkpoint, path, task.format)
        self._quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self._quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise Missing("did not load the converted model")
        params = llama_cpp.llama_context_default_params()
        tokens = len(task.prompt) + 64
        params.n_ctx = task.batch * tokens
        params.n_batch = params.n_ubatch = max(tokens, task.batch)
        params.n_seq_max = task.batch
        params.kv_unified = False  # else each would read the others' keys and mask them
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = 0  # float32
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise Missing("made no context of the converted model")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.vocab = checkpoint.config["vocab"]
        self.head_bias = checkpoint.head_bias
        self.prompt = task.prompt
        self.sequences = range(task.batch)
        self.batch = self._one_token_each()
        self.filled = False  # every sequence holds the prompt

    def _one_token_each(self):
        batch = self.lib.llama_batch_init(len(self.sequences), 0, 1)
        batch.n_tokens = len(self.sequences)
        for i in self.sequences:
            batch.token[i], batch.pos[i] = self.prompt[0], len(self.prompt)
            batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, i, 1
        return batch

    def __del__(self):
        if getattr(self, "batch", None):
            self.lib.llama_batch_free(self.batch)
        if getattr(self, "context", None):
            self.lib.llama_free(self.context)
        if getattr(self, "model", None):
            self.lib.llama_model_free(self.model)

    def _decode(self, batch):
        if self.lib.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")

    def _rows(self, count):
        """Of the last batch: [count, V]."""
        import numpy

        first = self.lib.llama_get_logits(self.context)
        rows = numpy.ctypeslib.as_array(first, shape=(count, self.vocab)).copy()
        return rows if self.head_bias is None else rows + self.head_bias.numpy()

    def logits(self, tokens):
        self.filled = False
        self.lib.llama_memory_clear(self.memory, False)
        array = (self.lib.llama_token * len(tokens))(*tokens)
        self._decode(self.lib.llama_batch_get_one(array, len(tokens)))
        return self._rows(1)[0]

    def _fill(self):
        self.logits(self.prompt)
        for i in self.sequences[1:]:
            self.lib.llama_memory_seq_cp(self.memory, 0, i, -1, -1)
        self._step()  # copies are made with the next batch
        self._cut()
        self.filled = True

    def batch_logits(self):
        self._fill()
        self._step()
        rows = self._rows(len(self.sequences))
        self._cut()
        return rows

    def round(self, seconds):
        if not self.filled:
            self._fill()
        return repeat(seconds, self._step, self._cut)

    def _step(self):
        self._decode(self.batch)
        self.lib.llama_get_logits(self.context)  # waits for the result

    def _cut(self):
        for i in self.sequences:
            self.lib.llama_memory_seq_rm(self.memory, i, len(self.prompt), -1)


def make(task, threads):
    return Llama(task, threads)
