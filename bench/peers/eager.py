# SPDX-License-Identifier: MIT
"""Eager PyTorch, one session, everything cached that can be: what one would write by hand.

Keys and values lie in preallocated tensors; a step projects one token, writes one row,
and reads the rows it sees. Fast weights are updated in place. Projections of the same
input are one matrix, and all products are matrix-vector products.
"""

import math

import torch
import torch.nn.functional as F

from . import Missing, repeat


class Eager:
    def __init__(self, checkpoint, prompt, threads, gelu=False):
        config = checkpoint.config
        if config["gated"]:
            raise Missing("gated feed-forward is not written here")
        self.name = f"PyTorch {torch.__version__.split('+')[0]} eager, cached"
        self.threads = threads
        self.weights = checkpoint.weights
        self.shared = checkpoint.shared
        self.prompt = prompt
        if gelu:
            self.act = lambda x: F.gelu(x, approximate="tanh")
        else:
            self.act = F.gelu if config["activation"] == "gelu" else F.relu
        self.heads = config["heads"]
        self.width = config["d_model"] // self.heads
        self.kind = config["architecture"]
        self.layers = range(config["layers"])
        self.memory = config["mem_len"]
        self.rows = config["positions"]
        self.nu = config["nu"]
        self.embedding = checkpoint.embedding
        self.device = self.embedding.device
        self.positions = checkpoint.absolute_positions()
        if self.positions is not None:
            self.positions = self.positions.to(self.device)
        self.head = checkpoint.head_weight, checkpoint.head_bias
        self.projections = [self.joined(parts) for parts in self.projection_names()]
        caches = 1 if self.shared else len(self.layers)
        if self.kind == "fast_weights":
            features = 2 * self.nu * self.width
            self.fast = self.zeros(len(self.layers), self.heads, self.width, features)
        else:
            rows = len(prompt) + 1
            self.keys = self.zeros(caches, self.heads, rows, self.width)
            self.values = self.zeros(caches, self.heads, rows, self.width)
        if self.kind == "feedback":
            self.mix = torch.softmax(self.weights["memory.mix"], 0)
        self.reset()

    def zeros(self, *shape):
        return torch.zeros(shape, device=self.device)

    def projection_names(self):
        """What each layer, and each memory of feedback, multiplies one input with."""
        if self.kind == "feedback":
            caches = ["memory"] if self.shared else [f"layers.{i}.attn" for i in self.layers]
            return [[f"{cache}.{part}" for part in ("key", "value")] for cache in caches]
        parts = ["query", "key", "value"] + ["gate"] * (self.kind == "fast_weights")
        return [[f"layers.{i}.attn.{part}" for part in parts] for i in self.layers]

    def joined(self, names):
        weights = [self.weights[f"{name}.weight"] for name in names]
        biases = [self.weights.get(f"{name}.bias") for name in names]
        bias = None
        if any(b is not None for b in biases):
            bias = torch.cat([w.new_zeros(len(w)) if b is None else b
                              for w, b in zip(weights, biases)])
        return torch.cat(weights), bias

    def reset(self):
        self.position = 0
        if self.kind == "fast_weights":
            self.fast.zero_()

    @torch.inference_mode()
    def logits(self, tokens):
        torch.set_num_threads(self.threads)
        self.reset()
        for token in tokens:
            logits = self.step(token)
        return logits.cpu().numpy()

    @torch.inference_mode()
    def round(self, seconds):
        torch.set_num_threads(self.threads)
        if self.position < len(self.prompt):
            self.logits(self.prompt)
        return repeat(seconds, self.step_after_prompt)

    def step_after_prompt(self):
        self.position = len(self.prompt)
        self.step(self.prompt[0])

    def step(self, token):
        logits = self.forward(token)
        self.position += 1
        return logits

    def forward(self, token):
        x = self.embedding[token]
        if self.positions is not None:
            x = x + self.positions[self.position]
        outputs = [x]
        for i in self.layers:
            x = self.attend(i, x)
            z = self.norm(x, f"layers.{i}.ff.norm")
            hidden = self.act(self.linear(z, f"layers.{i}.ff.in"))
            x = x + self.linear(hidden, f"layers.{i}.ff.out")
            outputs.append(x)
        if self.kind == "feedback":
            self.remember(self.mix @ torch.stack(outputs))
        return product(self.norm(x, "norm"), *self.head)

    def attend(self, i, x):
        name = f"layers.{i}.attn"
        if self.kind == "fast_weights":
            return x + self.linear(self.read_fast_weights(i, x), f"{name}.output")
        n = self.position
        if self.kind == "feedback":
            if n == 0:
                return x
            z = self.norm(x, f"{name}.norm")
            q = self.linear(z, f"{name}.query")
            cache, first = 0 if self.shared else i, 0
        else:
            z = self.norm(x, f"{name}.norm")
            q, key, value = product(z, *self.projections[i]).chunk(3)
            self.append(i, key, value)
            cache, first = i, max(0, n - self.memory) if self.kind == "transformer_xl" else 0
            n += 1
        keys, values = self.keys[cache, :, first:n], self.values[cache, :, first:n]
        scores = self.scores(name, self.split(q), keys, n - first)
        mixed = torch.softmax(scores / math.sqrt(self.width), -1).unsqueeze(1) @ values
        return x + self.linear(mixed.reshape(-1), f"{name}.output")

    def scores(self, name, q, keys, count):
        """[H, n]; the newest key is the last one."""
        if self.kind == "causal":
            return (keys @ q.unsqueeze(2)).squeeze(2)
        # transformer_xl: the newest key is at distance 0, row P; feedback: 1, row P-1.
        last = self.rows + 1 if self.kind == "transformer_xl" else self.rows
        table = self.weights[f"{name}.relative_key"][last - count:last]  # [n, H, K]
        u = self.weights[f"{name}.query_bias"]
        content = keys @ (q + u).unsqueeze(2)
        relative = table.transpose(0, 1) @ q.unsqueeze(2)
        return (content + relative).squeeze(2) + self.position_bias(name, table, u, last)

    def position_bias(self, name, table, u, last):
        bias = self.weights.get(f"{name}.relative_bias")
        if bias is None:  # tied
            return (table * u).sum(-1).t()
        return bias[last - table.shape[0]:last].t()

    def read_fast_weights(self, i, x):
        d = self.heads * self.width
        q, k, v, gate = product(x, *self.projections[i]).split((d, d, d, self.heads))
        q, k = self.features(self.split(q)), self.features(self.split(k))
        w = self.fast[i]
        beta = torch.sigmoid(gate).unsqueeze(1)  # [H, 1]
        error = beta * (self.split(v) - (w @ k.unsqueeze(2)).squeeze(2))
        w.baddbmm_(error.unsqueeze(2), k.unsqueeze(1))
        return (w @ q.unsqueeze(2)).reshape(-1)

    def features(self, x):
        both = F.relu(torch.cat((x, -x), -1))
        rolls = [both.roll(i, -1) for i in range(1, self.nu + 1)]
        products = torch.cat([both * roll for roll in rolls], -1)
        return products / (products.sum(-1, keepdim=True) + 1e-6)

    def remember(self, memory):
        for cache, projection in enumerate(self.projections):
            self.append(cache, *product(memory, *projection).chunk(2))

    def append(self, cache, key, value):
        self.keys[cache, :, self.position] = self.split(key)
        self.values[cache, :, self.position] = self.split(value)

    def split(self, x):
        return x.view(self.heads, self.width)

    def linear(self, x, name):
        return product(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape, self.weights[f"{name}.weight"],
                            self.weights[f"{name}.bias"])


def product(x, weight, bias):
    return torch.mv(weight, x) if bias is None else torch.addmv(bias, weight, x)


def make(task, threads):
    task.require_one_session()
    return Eager(task.checkpoint, task.prompt, threads)
