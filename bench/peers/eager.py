# SPDX-License-Identifier: MIT
"""Eager PyTorch, one session, everything cached that can be: what one would write by hand.

Keys and values lie in preallocated tensors; a step projects one token, writes one row,
and reads the rows it sees. Fast weights are updated in place.
"""

import math
import time

import torch
import torch.nn.functional as F

from . import Missing


class Eager:
    name = "PyTorch eager, cached"

    def __init__(self, checkpoint, prompt, threads, gelu=False):
        config = checkpoint.config
        if config["gated"]:
            raise Missing("gated feed-forward is not written here")
        torch.set_num_threads(threads)
        self.name = f"PyTorch {torch.__version__.split('+')[0]} eager, cached"
        self.checkpoint = checkpoint
        self.prompt = prompt
        self.act = (lambda x: F.gelu(x, approximate="tanh")) if gelu else self._activation()
        self.heads = config["heads"]
        self.width = config["d_model"] // self.heads
        self.kind = config["architecture"]
        self.layers = range(config["layers"])
        caches = 1 if checkpoint.shared else config["layers"]
        rows = len(prompt) + 1
        if self.kind == "fast_weights":
            features = 2 * config["nu"] * self.width
            self.fast = torch.zeros(config["layers"], self.heads, self.width, features)
        else:
            self.keys = torch.zeros(caches, self.heads, rows, self.width)
            self.values = torch.zeros(caches, self.heads, rows, self.width)
        if self.kind == "feedback":
            self.mix = torch.softmax(checkpoint.weights["memory.mix"], 0)
        self.reset()

    def _activation(self):
        return F.gelu if self.checkpoint.config["activation"] == "gelu" else F.relu

    def reset(self):
        self.position = 0
        if self.kind == "fast_weights":
            self.fast.zero_()

    @torch.inference_mode()
    def logits(self, tokens):
        self.reset()
        for token in tokens:
            logits = self.step(token)
        return logits.numpy()

    @torch.inference_mode()
    def round(self, seconds):
        if self.position != len(self.prompt):
            self.logits(self.prompt)
        samples = []
        start = time.perf_counter()
        while not samples or time.perf_counter() - start < seconds:
            self.position = len(self.prompt)
            begin = time.perf_counter()
            self.step(self.prompt[0])
            samples.append(time.perf_counter() - begin)
        self.position = len(self.prompt)
        return samples

    def step(self, token):
        weights = self.checkpoint.weights
        x = weights["embed.weight"][token]
        if self.checkpoint.config["embed_scale"]:
            x = x * math.sqrt(x.numel())
        x = self.add_position(x)
        outputs = [x]
        for i in self.layers:
            x = self.attend(i, x)
            z = self.norm(x, f"layers.{i}.ff.norm")
            hidden = self.act(self.linear(z, f"layers.{i}.ff.in"))
            x = x + self.linear(hidden, f"layers.{i}.ff.out")
            outputs.append(x)
        if self.kind == "feedback":
            self.remember(self.mix @ torch.stack(outputs))
        self.position += 1
        return F.linear(self.norm(x, "norm"), self.checkpoint.head_weight,
                        weights.get("head.bias"))

    def attend(self, i, x):
        name = f"layers.{i}.attn"
        if self.kind == "fast_weights":
            return x + self.linear(self.read_fast_weights(i, x), f"{name}.output")
        n = self.position
        if self.kind == "feedback":
            if n == 0:
                return x
            cache, first = 0 if self.checkpoint.shared else i, 0
        else:
            memory = self.checkpoint.config["mem_len"]
            cache, first = i, max(0, n - memory) if self.kind == "transformer_xl" else 0
        z = self.norm(x, f"{name}.norm")
        q = self.split(self.linear(z, f"{name}.query"))  # [H, K]
        if self.kind != "feedback":
            self.append(cache, self.linear(z, f"{name}.key"), self.linear(z, f"{name}.value"))
            n += 1
        keys, values = self.keys[cache, :, first:n], self.values[cache, :, first:n]
        scores = self.scores(name, q, keys, n - first)
        mixed = torch.softmax(scores / math.sqrt(self.width), -1).unsqueeze(1) @ values
        return x + self.linear(mixed.reshape(-1), f"{name}.output")

    def scores(self, name, q, keys, count):
        """[H, n]; the newest key is the last one."""
        weights = self.checkpoint.weights
        if self.kind == "causal":
            return (keys @ q.unsqueeze(2)).squeeze(2)
        rows = self.checkpoint.config["positions"]
        # transformer_xl: the newest key is at distance 0, row P; feedback: 1, row P-1.
        last = rows + 1 if self.kind == "transformer_xl" else rows
        table = weights[f"{name}.relative_key"][last - count:last]  # [n, H, K]
        u = weights[f"{name}.query_bias"]
        content = keys @ (q + u).unsqueeze(2)
        relative = table.transpose(0, 1) @ q.unsqueeze(2)
        return (content + relative).squeeze(2) + self.position_bias(name, table, u, last)

    def position_bias(self, name, table, u, last):
        bias = self.checkpoint.weights.get(f"{name}.relative_bias")
        if bias is None:  # tied
            return (table * u).sum(-1).t()
        return bias[last - table.shape[0]:last].t()

    def read_fast_weights(self, i, x):
        name = f"layers.{i}.attn"
        q, k = (self.features(self.split(self.linear(x, f"{name}.{part}")))
                for part in ("query", "key"))
        v = self.split(self.linear(x, f"{name}.value"))
        beta = torch.sigmoid(self.linear(x, f"{name}.gate")).unsqueeze(1)  # [H, 1]
        w = self.fast[i]
        error = beta * (v - (w @ k.unsqueeze(2)).squeeze(2))
        w.baddbmm_(error.unsqueeze(2), k.unsqueeze(1))
        return (w @ q.unsqueeze(2)).reshape(-1)

    def features(self, x):
        both = F.relu(torch.cat((x, -x), -1))
        rolls = [both.roll(i, -1) for i in range(1, self.checkpoint.config["nu"] + 1)]
        products = torch.cat([both * roll for roll in rolls], -1)
        return products / (products.sum(-1, keepdim=True) + 1e-6)

    def remember(self, memory):
        for cache in range(self.keys.shape[0]):
            name = "memory" if self.checkpoint.shared else f"layers.{cache}.attn"
            self.append(cache, self.linear(memory, f"{name}.key"),
                        self.linear(memory, f"{name}.value"))

    def append(self, cache, key, value):
        self.keys[cache, :, self.position] = self.split(key)
        self.values[cache, :, self.position] = self.split(value)

    def add_position(self, x):
        kind = self.checkpoint.config["position_kind"]
        if kind == "learned":
            return x + self.checkpoint.weights["positions.weight"][self.position]
        if kind == "sinusoidal":
            steps = torch.arange(0, x.numel(), 2, dtype=torch.float64)
            angle = self.position * torch.exp(-steps * math.log(10000.0) / x.numel())
            return x + torch.stack((angle.sin(), angle.cos()), 1).reshape(-1).float()
        if kind in ("none", "relative"):
            return x
        raise Missing(f"positions of kind {kind} are not written here")

    def split(self, x):
        return x.view(self.heads, self.width)

    def linear(self, x, name):
        weights = self.checkpoint.weights
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(self, x, name):
        weights = self.checkpoint.weights
        return F.layer_norm(x, x.shape, weights[f"{name}.weight"], weights[f"{name}.bias"])


def make(checkpoint, prompt, threads):
    return Eager(checkpoint, prompt, threads)
