# SPDX-License-Identifier: MIT
"""What trains the same models on the same data as mnemon.

A trainer has
  name            what the table calls it
  loss(batch)     mean cross-entropy of a batch with the weights it began with
  update(batch)   one update: forward, backward, clip to 1, optimiser
where a batch is tokens and targets, int64 [T, B] as the reference has them.
"""

import math

import torch
import torch.nn.functional as F

from . import Missing, reference


def _cross_entropy(logits, targets):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


class Reference:
    """The reference implementation with its own optimiser, as its experiments set it."""

    name = "labml-nn 0.5.1"

    def __init__(self, checkpoint, dropout):
        from labml_nn.optimizers.noam import Noam

        self.model = reference.build(checkpoint, dropout)
        reference.load(self.model, checkpoint)
        self.model.train()
        self.xl = checkpoint.config["architecture"] == "transformer_xl"
        self.mem_len = checkpoint.config["mem_len"]
        self.memory = []
        self.optimizer = Noam(self.model.parameters(), lr=1.0, betas=(0.9, 0.999), eps=1e-8,
                              warmup=2000, d_model=checkpoint.config["d_model"])

    def forward(self, tokens):
        if not self.xl:
            return self.model(tokens)[0]
        count, seen = len(tokens), len(self.memory[0]) if self.memory else 0
        causal = torch.tril(torch.ones(count, count, dtype=torch.bool)).unsqueeze(-1)
        mask = torch.cat((causal.new_ones(count, seen, 1), causal), 1)
        x, new = self.model.transformer(self.model.src_embed(tokens), self.memory, mask)
        if self.memory:
            new = [torch.cat(pair) for pair in zip(self.memory, new)]
        self.memory = [m[-self.mem_len:].detach() for m in new]
        return self.model.generator(x)

    def loss(self, batch):
        self.model.eval()
        with torch.no_grad():
            loss = _cross_entropy(self.forward(batch[0]), batch[1]).item()
        self.model.train()
        self.memory = []
        return loss

    def update(self, batch):
        self.optimizer.zero_grad()
        _cross_entropy(self.forward(batch[0]), batch[1]).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)
        self.optimizer.step()


class EagerCausal:
    """What one would write in PyTorch today: fused attention, fused AdamW."""

    name = f"PyTorch {torch.__version__.split('+')[0]} eager, SDPA, fused AdamW"

    def __init__(self, checkpoint, dropout):
        config = checkpoint.config
        if config["architecture"] != "causal" or config["position_kind"] != "sinusoidal":
            raise Missing("written for the causal experiment alone")
        self.config = config
        self.dropout = dropout
        self.weights = {name: torch.nn.Parameter(weight.clone())
                        for name, weight in checkpoint.weights.items()}
        self.positions = checkpoint.absolute_positions()
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=1e-3, fused=True)

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.weights[name + ".weight"],
                            self.weights[name + ".bias"])

    def forward(self, tokens, dropout):
        tokens, heads = tokens.t(), self.config["heads"]
        x = F.embedding(tokens, self.weights["embed.weight"]) * math.sqrt(self.config["d_model"])
        x = x + self.positions[:tokens.shape[1]]
        drop = (lambda y: F.dropout(y, dropout)) if dropout else lambda y: y
        for i in range(self.config["layers"]):
            layer = f"layers.{i}."
            z = self.norm(x, layer + "attn.norm")
            q, k, v = (self.linear(z, layer + "attn." + part).unflatten(-1, (heads, -1))
                       .transpose(1, 2) for part in ("query", "key", "value"))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
            x = x + drop(self.linear(y.transpose(1, 2).flatten(2), layer + "attn.output"))
            z = self.norm(x, layer + "ff.norm")
            x = x + drop(self.linear(drop(F.relu(self.linear(z, layer + "ff.in"))),
                                     layer + "ff.out"))
        return self.linear(self.norm(x, "norm"), "head").transpose(0, 1)

    def loss(self, batch):
        with torch.no_grad():
            return _cross_entropy(self.forward(batch[0], 0.0), batch[1]).item()

    def update(self, batch):
        self.optimizer.zero_grad()
        _cross_entropy(self.forward(batch[0], self.dropout), batch[1]).backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), max_norm=1.0)
        self.optimizer.step()
