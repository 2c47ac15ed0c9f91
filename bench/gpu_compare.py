#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mnemon beside PyTorch on one GPU: microseconds for one more token of one session.

Examples:
  python3 bench/gpu_compare.py
  python3 bench/gpu_compare.py --arch causal,fast_weights --size S,M --precision int8

PyTorch runs the model of bench/peers/eager.py, everything cached that can be, as it is
written, and compiled by torch.compile in its mode reduce-overhead, one CUDA graph a step.
The weights are drawn by mnemon and written as a checkpoint that both read; PyTorch must
give the logits of mnemon's step form on the CPU, to 1e-3 of the largest (int8 3e-2)
before its time counts. A step of mnemon includes the copy of its logits to the host.
Programs take turns, one round each, again and again; the ratio is the median of the
rounds'. Needs torch with CUDA, numpy and safetensors, and a build of preset cuda with the
torch wheel.

Exit code: 0 done, 1 failed or logits differ, 2 usage.
"""

import argparse
import dataclasses
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import tables  # noqa: E402
from compare import TOLERANCE, check_packages, names, positive  # noqa: E402
from peers import checkpoint as checkpoints  # noqa: E402
from peers.mnemon import Mnemon  # noqa: E402


def parse_flags():
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=names(tables.ARCHITECTURES),
                        default=["causal", "fast_weights"],
                        help=f"some of {','.join(tables.ARCHITECTURES)} "
                        "(default: causal,fast_weights)")
    parser.add_argument("--size", type=names(tables.SIZES), default=["S", "M"],
                        help=f"some of {','.join(tables.SIZES)} (default: S,M)")
    parser.add_argument("--precision", choices=tables.PRECISIONS, default="fp32",
                        help="of mnemon's weights; PyTorch's are fp32")
    parser.add_argument("--context", type=positive(int), default=128,
                        help="length of the session's context in tokens (default: 128)")
    parser.add_argument("--rounds", type=positive(int), default=3, help="(default: 3)")
    parser.add_argument("--seconds", type=positive(float), default=0.5,
                        help="of each program in each round (default: 0.5)")
    parser.add_argument("--bin", default="build/cuda/bin",
                        help="folder of mnemon's programs (default: build/cuda/bin)")
    flags = parser.parse_args()
    for program in ("mnemon-bench", "mnemon-train"):
        if not (pathlib.Path(flags.bin) / program).is_file():
            parser.error(f"argument --bin: no {program} in {flags.bin}: build it first")
    return flags


def check_gpu():
    check_packages()
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(f"the torch of {sys.executable} finds no GPU that it can use")


def make_programs(checkpoint, prompt):
    import torch
    from peers.eager import Eager

    torch.backends.cuda.matmul.allow_tf32 = False

    class OnGpu(Eager):
        def step_after_prompt(self):
            super().step_after_prompt()
            torch.cuda.synchronize()

    class Compiled(OnGpu):
        """Only the step after the prompt is compiled; a graph may use its tensors
        where they are."""

        def __init__(self, *given):
            super().__init__(*given)
            self.name = self.name.replace("eager", "compiled")
            state = [getattr(self, name) for name in ("fast", "keys", "values")
                     if hasattr(self, name)]
            for tensor in state:
                torch._dynamo.mark_static_address(tensor)
            self.compiled = torch.compile(super().forward, mode="reduce-overhead",
                                          dynamic=False)

        def forward(self, token):
            after = self.position == len(self.prompt)
            return self.compiled(token) if after else super().forward(token)

    there = dataclasses.replace(
        checkpoint, weights={name: weight.to("cuda")
                             for name, weight in checkpoint.weights.items()})
    return [OnGpu(there, prompt, 1), Compiled(there, prompt, 1)]


def compare(architecture, size, flags):
    """Prints a row per program; whether all gave mnemon's logits."""
    with tempfile.TemporaryDirectory() as work:
        mnemon = Mnemon(flags, architecture, size, pathlib.Path(work) / "checkpoint",
                        device="cuda")
        checkpoint = checkpoints.read(mnemon.directory)
        vocab = checkpoint.config["vocab"]
        prompt = [(i * 7919 + 13) % vocab for i in range(flags.context)]
        logits = mnemon.logits(prompt + prompt[:1])
        programs, right = [mnemon], True
        for program in make_programs(checkpoint, prompt):
            differs = abs(program.logits(prompt + prompt[:1]) - logits).max()
            differs /= abs(logits).max()
            if not differs <= TOLERANCE[flags.precision]:
                print(f"gpu_compare.py: {architecture} {size}: {program.name} gives other "
                      f"logits, by {differs:.0e} of the largest", file=sys.stderr)
                right = False
            program.round(0.1)  # warms up
            programs.append(program)
        rounds = [[statistics.median(program.round(flags.seconds)) for program in programs]
                  for _ in range(flags.rounds)]
    for program, times in zip(programs, zip(*rounds)):
        ratio = statistics.median(time / turn[0] for time, turn in zip(times, rounds))
        print(f"| {architecture} | {size} | {program.name} "
              f"| {1e6 * statistics.median(times):,.1f} | {ratio:.2f} |", flush=True)
    return right


def main():
    flags = parse_flags()
    check_gpu()
    flags.threads, flags.batch = [1], 1
    print("| architecture | size | program | us/token | time / mnemon's |\n|---|---|---|---|---|")
    right = [compare(architecture, size, flags)
             for size in flags.size for architecture in flags.arch]
    return 0 if all(right) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        sys.exit(f"gpu_compare.py: {error}")
