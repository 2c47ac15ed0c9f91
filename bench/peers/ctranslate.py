# SPDX-License-Identifier: MIT
"""CTranslate2, causal only: the same weights in its own model format, with its
float32 or its int8: a scale for each output of a matrix and one for each row that is
multiplied. It multiplies int8 by oneDNN on processors that are not Intel's, which without
VNNI adds pairs of products in 16 bits, saturates, and gives other logits (a third of the
largest off); MKL, which the same package has, does not.

It decodes a whole continuation in one call, of as many equal prompts as there are
sessions. A sample is the difference of a long and a short one after the same prompt, over
the steps in between.
"""

import os
import pathlib
import time

from . import Missing, repeat

CPU = pathlib.Path("/proc/cpuinfo")
# What its converter and its generator call a format.
FORMATS = {"fp32": (None, "float32"), "int8": ("int8", "int8")}
TOKENS = 33  # of the long continuation; the short one has 1


def _linear(spec, weight, bias):
    spec.weight = weight.numpy()
    if bias is not None:
        spec.bias = bias.numpy()


def _convert(checkpoint, directory, quantization):
    import torch
    from ctranslate2.specs import common_spec, transformer_spec

    c = checkpoint.config
    weights = checkpoint.weights
    activation = (common_spec.Activation.GELU if c["activation"] == "gelu"
                  else common_spec.Activation.RELU)
    model = transformer_spec.TransformerDecoderModelSpec.from_config(
        c["layers"], c["heads"], pre_norm=True, activation=activation)
    decoder = model.decoder
    decoder.scale_embeddings = c["embed_scale"]
    decoder.embeddings.weight = weights["embed.weight"].numpy()
    decoder.position_encodings.encodings = checkpoint.absolute_positions().numpy()

    def norm(spec, name):
        spec.gamma = weights[f"{name}.weight"].numpy()
        spec.beta = weights[f"{name}.bias"].numpy()

    norm(decoder.layer_norm, "norm")
    _linear(decoder.projection, checkpoint.head_weight, checkpoint.head_bias)
    for i, layer in enumerate(decoder.layer):
        attention = layer.self_attention
        norm(attention.layer_norm, f"layers.{i}.attn.norm")
        parts = [f"layers.{i}.attn.{p}" for p in ("query", "key", "value")]
        _linear(attention.linear[0],
                torch.cat([weights[f"{p}.weight"] for p in parts]),
                torch.cat([weights[f"{p}.bias"] for p in parts]))
        _linear(attention.linear[1], checkpoint.layer(i, "attn.output.weight"),
                checkpoint.layer(i, "attn.output.bias"))
        norm(layer.ffn.layer_norm, f"layers.{i}.ff.norm")
        for place, part in ((layer.ffn.linear_0, "in"), (layer.ffn.linear_1, "out")):
            _linear(place, checkpoint.layer(i, f"ff.{part}.weight"),
                    checkpoint.layer(i, f"ff.{part}.bias"))
    model.register_vocabulary([str(i) for i in range(c["vocab"])])
    model.config.bos_token = model.config.eos_token = model.config.unk_token = "0"
    model.validate()
    model.optimize(quantization=quantization)
    directory.mkdir()
    model.save(str(directory))


class CTranslate2:
    def __init__(self, task, threads):
        checkpoint = task.checkpoint
        if checkpoint.config["architecture"] != "causal":
            raise Missing("runs plain causal models only")
        if checkpoint.absolute_positions() is None:
            raise Missing("converted for absolute positions only")
        if task.format == "int8" and "vnni" not in CPU.read_text():
            os.environ["CT2_USE_MKL"] = "1"  # read at its first import
        try:
            import ctranslate2
        except ImportError as error:
            raise Missing(f"cannot import: {error}") from error
        library = " with MKL" if os.environ.get("CT2_USE_MKL") == "1" else ""
        self.name = f"CTranslate2 {ctranslate2.__version__}{library}"
        self.threads = threads
        quantization, compute_type = FORMATS[task.format]
        directory = pathlib.Path(checkpoint.directory) / "ctranslate2"
        if not directory.exists():
            _convert(checkpoint, directory, quantization)
        self.generator = ctranslate2.Generator(
            str(directory), device="cpu", compute_type=compute_type, inter_threads=1,
            intra_threads=threads)
        self.prompts = [[str(token) for token in task.prompt]] * task.batch

    def logits(self, tokens):
        import numpy

        output = self.generator.forward_batch([[str(token) for token in tokens]])
        return numpy.array(output)[0, -1]

    def _seconds(self, count):
        begin = time.perf_counter()
        self.generator.generate_batch(
            self.prompts, min_length=count, max_length=count, sampling_topk=1,
            include_prompt_in_result=False)
        return time.perf_counter() - begin

    def round(self, seconds):
        samples = []
        repeat(seconds, lambda: samples.append(
            (self._seconds(TOKENS) - self._seconds(1)) / (TOKENS - 1)))
        return samples


def make(task, threads):
    return CTranslate2(task, threads)
