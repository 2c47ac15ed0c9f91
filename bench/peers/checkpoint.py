# SPDX-License-Identifier: MIT
"""A checkpoint that mnemon wrote."""

import dataclasses
import json
import math
import pathlib

from . import Missing


@dataclasses.dataclass
class Checkpoint:
    directory: pathlib.Path
    config: dict
    weights: dict  # name -> float32 tensor; names as in model/compute/tensor_names.h

    def layer(self, i, part):
        return self.weights[f"layers.{i}.{part}"]

    @property
    def shared(self):
        return self.config["projection"] == "shared"

    @property
    def embedding(self):
        """[V, D], as it is added to the positions."""
        weight = self.weights["embed.weight"]
        return weight * math.sqrt(self.config["d_model"]) if self.config["embed_scale"] else weight

    @property
    def head_weight(self):
        return self.weights["embed.weight" if self.config["tie_head"] else "head.weight"]

    @property
    def head_bias(self):
        """None when the head is tied."""
        return self.weights.get("head.bias")

    def absolute_positions(self):
        """[P, D]; None where positions are relative or absent."""
        import torch

        kind = self.config["position_kind"]
        if kind == "learned":
            return self.weights["positions.weight"]
        if kind == "sinusoidal":
            width = self.config["d_model"]
            steps = torch.arange(0, width, 2, dtype=torch.float64)
            rates = torch.exp(-steps * math.log(10000.0) / width)
            angles = torch.arange(self.config["positions"]).unsqueeze(1) * rates
            return torch.stack((angles.sin(), angles.cos()), 2).flatten(1).float()
        if kind in ("none", "relative"):
            return None
        raise Missing(f"positions of kind {kind} are not written here")


def read(directory):
    from safetensors.torch import load_file

    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text())
    return Checkpoint(directory, config, load_file(directory / "model.safetensors"))
