# SPDX-License-Identifier: MIT
"""A checkpoint that mnemon wrote."""

import dataclasses
import json
import pathlib


@dataclasses.dataclass
class Checkpoint:
    directory: pathlib.Path
    architecture: str  # as typed: feedback_shared too
    config: dict
    weights: dict  # name -> float32 tensor; names as in model/tensor_names.h

    def layer(self, i, part):
        return self.weights[f"layers.{i}.{part}"]

    @property
    def shared(self):
        return self.config["projection"] == "shared"

    @property
    def head_weight(self):
        return self.weights["embed.weight" if self.config["tie_head"] else "head.weight"]


def read(directory, architecture):
    from safetensors.torch import load_file

    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text())
    return Checkpoint(directory, architecture, config,
                      load_file(directory / "model.safetensors"))
