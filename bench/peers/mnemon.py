# SPDX-License-Identifier: MIT
"""mnemon itself, through its own programs."""

import json
import pathlib
import subprocess


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"{command[0]} failed")
    return done.stdout


class Mnemon:
    """Writes the checkpoint `directory`; `flags` are those of bench/compare.py. Steps are
    timed on `device`."""

    def __init__(self, flags, architecture, size, directory, device="cpu"):
        self.binaries = pathlib.Path(flags.bin)
        threads = max(flags.threads)
        self.model = ("--arch", architecture, "--size", size)
        self.weights = ("--precision", flags.precision)
        self.step = ("--context", flags.context, "--batch", flags.batch, "--threads", threads,
                     "--device", device)
        self.directory = pathlib.Path(directory)
        self.name = "mnemon"
        self.threads = threads
        self.floors = []  # seconds per step, one per round
        self.steady = True
        self.probes = {"fma_gflops": [], "int8_gops": [], "memory_gbytes": []}
        run(self.binaries / "mnemon-bench", "checkpoint", *self.model, "--out", self.directory)

    def logits(self, tokens):
        import torch
        from safetensors.torch import load_file, save_file

        given, written = self.directory.parent / "tokens", self.directory.parent / "logits"
        save_file({"tokens": torch.tensor([tokens])}, given)
        run(self.binaries / "mnemon-train", "score", "--checkpoint", self.directory,
            "--tokens", given, "--out", written, "--form", "step", *self.weights)
        return load_file(written)["logits"][0, -1].numpy()

    def round(self, seconds):
        """Quartiles of a run, which stand for its steps."""
        document = json.loads(run(self.binaries / "mnemon-bench", "step", *self.model,
                                  *self.step, *self.weights, "--seconds", seconds,
                                  "--json"))
        result = document["results"][0]
        self.name = f"mnemon, decoder {result['decoder'].split('/')[0]}"
        if "steady" in result:  # nothing is probed beside a GPU
            self.floors.append(result["floor_us"]["floor"] / 1e6)
            self.steady = self.steady and result["steady"]
            for key, seen in self.probes.items():
                seen += document[key].values()
        step = result["step_us"]
        return [step[key] / 1e6 for key in ("q25", "median", "q75")]
