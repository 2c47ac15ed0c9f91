#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mnemon beside other programs that run the same models: microseconds per token.

Examples:
  DIR/bin/python bench/compare.py
  DIR/bin/python bench/compare.py --arch causal --size M,G --json causal.json
  DIR/bin/python bench/compare.py --arch causal --size S --batch 16 --precision bf16
  DIR/bin/python bench/compare.py --arch causal --size XS,S,M,G --precision int8 --threads 2
  bench/tables.py compare seed.json causal.json > bench/compare_table.md

A step is one more token for each of --batch sessions; its time is divided by them. The
weights are drawn by mnemon, written as a checkpoint, and read by everyone else; each
program must give mnemon's logits before its time counts, to 1e-3 of the largest (llama.cpp
1e-2). With --precision bf16 mnemon stores its matrices in bfloat16, and so does llama.cpp;
the others compute the same model in float32, and 3e-2 is allowed: bfloat16 has 8 bits of
mantissa, so each rounding is off by up to 2e-3, and they add up over the layers. With int8
llama.cpp runs twice, in Q8_0 and in Q4_0, and CTranslate2 in its int8; 3e-2 is allowed
too, because inputs of matrices have 8 bits. llama.cpp's logits are held against those of
the weights in its file, which in Q4_0 are not mnemon's any more. Programs
take turns: one round each, again and again. The floor is what the memory bandwidth of
the same run allows with mnemon's weights (bench/kernels/floor.h); Q4_0 reads little more than
half of those of int8 and may be below it. Needs the packages of
bench/requirements.txt in the Python that runs it; a program that is not there is named
below the table.

Exit code: 0 done, 1 failed or logits differ, 2 usage.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import shlex
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import tables  # noqa: E402
from peers import Missing, Task, checkpoint as checkpoints  # noqa: E402
from peers.mnemon import Mnemon, run  # noqa: E402

# Module, label, and how it stores its matrices beside a precision of mnemon; else in fp32.
PEERS = (("eager", "PyTorch eager", {}), ("reference", "labml-nn", {}),
         ("llama", "llama.cpp",
          {"fp32": ["F32"], "bf16": ["BF16"], "int8": ["Q8_0", "Q4_0"]}),
         ("ctranslate", "CTranslate2", {"int8": ["int8"]}))
TOLERANCE = {"fp32": 1e-3, "bf16": 3e-2, "int8": 3e-2}  # of the largest logit
TRIAL_SECONDS = 0.3  # with each number of threads


def names(known):
    def parse(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown '{name}'; known: {', '.join(known)}")
        return text.split(",")

    return parse


def positive(kind, most=1e6):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(
                f"'{text}' is not a positive number, {most:,.0f} at most")
        return value

    return parse


def several(parse):
    return lambda text: [parse(part) for part in text.split(",")]


def parse_flags():
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=names(tables.ARCHITECTURES),
                        default=tables.ARCHITECTURES,
                        help=f"some of {','.join(tables.ARCHITECTURES)} (default: all)")
    parser.add_argument("--size", type=names(tables.SIZES), default=["XS", "S", "SEED"],
                        help=f"some of {','.join(tables.SIZES)} (default: XS,S,SEED)")
    parser.add_argument("--context", type=positive(int), default=128,
                        help="length of the session's context in tokens (default: 128)")
    parser.add_argument("--batch", type=positive(int, 4096), default=1,
                        help="sessions in one step (default: 1)")
    parser.add_argument("--precision", choices=tables.PRECISIONS, default="fp32",
                        help="of mnemon's stored weights; the others' come near it where they can "
                        "(default: fp32)")
    parser.add_argument("--threads", type=several(positive(int)),
                        default=sorted({1, os.cpu_count()}),
                        help="numbers of threads: mnemon runs with the largest, each other "
                        "program with the one that is fastest for it (default: 1 and all)")
    parser.add_argument("--rounds", type=positive(int), default=5, help="(default: 5)")
    parser.add_argument("--seconds", type=positive(float), default=1.0,
                        help="of each program in each round (default: 1)")
    parser.add_argument("--bin", default=os.environ.get("MNEMON_BIN", "build/release/bin"),
                        help="folder of mnemon's programs (default: MNEMON_BIN, or "
                        "build/release/bin)")
    parser.add_argument("--json", help="also write the figures to this file, after each model")
    flags = parser.parse_args()
    for program in ("mnemon-bench", "mnemon-train"):
        if not (pathlib.Path(flags.bin) / program).is_file():
            parser.error(f"argument --bin: no {program} in {flags.bin}: build it first")
    if flags.json and not pathlib.Path(flags.json).absolute().parent.is_dir():
        parser.error(f"argument --json: no folder for {flags.json}")
    return flags


def check_packages():
    """Those without which nothing can be compared."""
    for package in ("numpy", "torch", "safetensors"):
        try:
            __import__(package)
        except ImportError as error:
            raise RuntimeError(f"{sys.executable} cannot import {package} ({error}): "
                               "install the packages of bench/requirements.txt") from error


def fastest(make, task, counts):
    """The peer with the number of threads that suits it."""
    best, best_seconds = None, None
    for threads in counts:
        peer = make(task, threads)
        peer.round(0)  # warms up
        seconds = statistics.median(peer.round(TRIAL_SECONDS))
        if best is None or seconds < best_seconds:
            best, best_seconds = peer, seconds
    return best


def differences(peer, logits, task):
    """Largest difference of the logits after the prompt, and of each session's in a batch
    from those of one session alone; over the largest logit."""
    if hasattr(peer, "same_as"):
        logits = peer.same_as(task).logits(task.prompt)
    found = [abs(peer.logits(task.prompt) - logits).max()]
    if task.batch > 1 and hasattr(peer, "batch_logits"):
        alone = peer.logits(task.prompt + task.prompt[:1])
        found += [abs(row - alone).max() for row in peer.batch_logits()]
    return [float(differs / abs(logits).max()) for differs in found]


def make_peers(task, logits, counts):
    """Those that run here, and why the others do not:
    ([(peer, its format, difference of logits)], [row without times])."""
    peers, rows = [], []
    wanted = [(module, label, stored) for module, label, formats in PEERS
              for stored in formats.get(task.precision, ["fp32"])]
    for module, label, stored in wanted:
        task = dataclasses.replace(task, format=stored)
        row = {"program": label, "format": stored, "wrong": False}
        try:
            imported = __import__(f"peers.{module}", fromlist=[module])
            peer = fastest(imported.make, task, counts)
            found = differences(peer, logits, task)
            tolerance = max(TOLERANCE[task.precision], getattr(peer, "tolerance", 0))
            if all(differs <= tolerance for differs in found):  # so a NaN is wrong
                peers.append((peer, stored, max(found)))
                continue
            row["wrong"] = True
            row["missing"] = f"gives other logits, by {max(found):.0e} of the largest"
        except (Missing, ImportError) as error:
            row["missing"] = str(error)
        rows.append(row)
    return peers, rows


def spread(samples):
    if len(samples) == 1:
        samples = samples * 2
    quarters = statistics.quantiles(samples, n=4, method="inclusive")
    return {"min": min(samples), "q25": quarters[0], "median": quarters[1],
            "q75": quarters[2]}


def compare(architecture, size, flags):
    """One row per program, and mnemon itself."""
    with tempfile.TemporaryDirectory() as work:
        directory = pathlib.Path(work) / "checkpoint"
        mnemon = Mnemon(flags, architecture, size, directory)
        checkpoint = checkpoints.read(directory)
        vocab = checkpoint.config["vocab"]
        prompt = [(i * 7919 + 13) % vocab for i in range(flags.context)]
        task = Task(checkpoint, prompt, flags.batch, flags.precision)
        peers, missing = make_peers(task, mnemon.logits(prompt), flags.threads)
        programs = [(mnemon, flags.precision, 0.0), *peers]
        rounds = [[] for _ in programs]
        for _ in range(flags.rounds):
            for (program, *_), samples in zip(programs, rounds):
                samples.append(program.round(flags.seconds))
        floor = statistics.median(mnemon.floors) / flags.batch
        model = {"architecture": architecture, "size": size, "batch": flags.batch,
                 "precision": flags.precision}
        rows = []
        for (program, stored, differs), samples in zip(programs, rounds):
            times = spread([step / flags.batch for turn in samples for step in turn])
            ratios = [statistics.median(turn) / statistics.median(own)
                      for turn, own in zip(samples, rounds[0])]
            rows.append({
                **model, "program": program.name, "format": stored,
                "threads": program.threads,
                "us_per_token": {key: value * 1e6 for key, value in times.items()},
                "floor_us": floor * 1e6, "floor_share": floor / times["median"],
                "times_mnemon": statistics.median(ratios),
                "logits_difference": differs, "steady": mnemon.steady})
        rows += [{**model, **row} for row in missing]
        return rows, mnemon


def measure(flags):
    """The document of --json, which is written anew after each model."""
    command = [os.path.relpath(__file__), *sys.argv[1:]]
    document = {
        "command": shlex.join(["python", *command]), "machine": tables.machine(),
        "mnemon": run(pathlib.Path(flags.bin) / "mnemon-bench", "--version").strip(),
        "python": f"Python {platform.python_version()}", "threads": flags.threads,
        "context": flags.context, "batch": flags.batch, "precision": flags.precision,
        "rounds": flags.rounds, "seconds": flags.seconds,
        "load_average": [], "fma_gflops": [], "int8_gops": [], "memory_gbytes": [],
        "results": []}
    for size in flags.size:
        for architecture in flags.arch:
            print(f"compare.py: {architecture} {size}", file=sys.stderr, flush=True)
            document["load_average"].append(os.getloadavg()[0])
            rows, mnemon = compare(architecture, size, flags)
            document["results"] += rows
            for key, seen in mnemon.probes.items():
                document[key] += seen
            if flags.json:
                pathlib.Path(flags.json).write_text(json.dumps(document, indent=2) + "\n")
    return document


def main():
    flags = parse_flags()
    check_packages()
    document = measure(flags)
    print(tables.comparison_table([document]))
    wrong = [row for row in document["results"] if row.get("wrong")]
    for row in wrong:
        print(f"compare.py: {row['architecture']} {row['size']}: {row['program']} "
              f"{row['format']} {row['missing']}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        sys.exit(f"compare.py: {error}")
