#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the architectures can learn: the tasks of train/configs/tasks in full, each held
against what it must come to.

Examples:
  bench/tasks.py
  bench/tasks.py --task retrieval,copy

Where a task runs with several seeds, the median counts. Exit code: 0 done, 1 failed or a
bound is missed, 2 usage.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tables  # noqa: E402

CURRICULUM = {"data.curriculum": "4:30 8:30 16:40"}
SEEDS = [1, 2, 3]

# Task, what is set, seeds, and bounds: a figure of the run, at least or at most, how much.
# trained: accuracy of the last validation, at the length of the training.
CASES = [
    ("reverse", {}, [1], [("accuracy", ">=", 0.9995)]),
    ("retrieval", {}, [1], [("loss", "<=", 0.001)]),
    ("retrieval", {"model.update_rule": "sum"}, [1], [("accuracy", "<=", 0.6)]),
    ("dihedral", CURRICULUM, SEEDS, [("trained", ">=", 0.99), ("accuracy", ">=", 0.75)]),
    ("dihedral-causal", {}, SEEDS, [("accuracy", "<=", 0.4)]),
    ("copy", {}, [1], [("accuracy", ">=", 0.99)]),
    ("copy", {"model.mem_len": 0}, [1], [("accuracy", "<=", 0.12)]),
    ("capacity", {}, [1], [("accuracy", ">=", 0.99)]),
    ("recall", {}, SEEDS, [("accuracy", ">=", 0.95)]),
    ("recall-causal", {}, SEEDS, [("accuracy", ">=", 0.95)]),
]


def parse_flags():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = sorted({case[0] for case in CASES})
    parser.add_argument("--task", default=",".join(tasks),
                        help=f"some of {','.join(tasks)} (default: all)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: all)")
    parser.add_argument("--bin", default=os.environ.get("MNEMON_BIN", "build/release/bin"),
                        help="folder of mnemon's programs (default: MNEMON_BIN, or "
                        "build/release/bin)")
    flags = parser.parse_args()
    flags.task = flags.task.split(",")
    for task in flags.task:
        if task not in tasks:
            parser.error(f"argument --task: no task {task}: use some of {', '.join(tasks)}")
    if flags.threads < 1:
        parser.error("argument --threads: at least 1")
    return flags


def run(task, settings, seed, flags, work):
    """The figures that a run ends with."""
    command = [f"{flags.bin}/mnemon-train", "fit", "--config",
               f"train/configs/tasks/{task}.toml", "--threads", str(flags.threads),
               "--out", str(pathlib.Path(work) / "run"), "--set", f"train.seed={seed}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(["rm", "-rf", str(pathlib.Path(work) / "run")], check=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    test = re.search(r"^test: loss ([\d.]+)  accuracy ([\d.]+)", done.stdout, re.M)
    trained = re.findall(r"^step .*  accuracy ([\d.]+)", done.stdout, re.M)
    if test is None or not trained:
        raise RuntimeError(f"{' '.join(command)} printed no accuracy")
    return {"loss": float(test[1]), "accuracy": float(test[2]), "trained": float(trained[-1])}


def holds(figure, relation, bound):
    return figure >= bound if relation == ">=" else figure <= bound


def main():
    flags = parse_flags()
    missed = 0
    print(f"{tables.machine()}, {flags.threads} threads\n")
    print("| task | set | seconds each | figure | came to | bound | |\n|---|---|---|---|---|---|---|",
          flush=True)
    with tempfile.TemporaryDirectory() as work:
        for task, settings, seeds, bounds in CASES:
            if task not in flags.task:
                continue
            begin = time.perf_counter()
            runs = [run(task, settings, seed, flags, work) for seed in seeds]
            seconds = (time.perf_counter() - begin) / len(seeds)
            what = ", ".join(f"`{key}={value}`" for key, value in settings.items())
            for figure, relation, bound in bounds:
                values = [one[figure] for one in runs]
                held = holds(statistics.median(values), relation, bound)
                missed += not held
                print(f"| `{task}` | {what} | {seconds:.1f} | {figure} | "
                      f"{', '.join(f'{value:.4f}' for value in values)} | "
                      f"{relation} {bound} | {'held' if held else 'MISSED'} |", flush=True)
    if missed:
        raise RuntimeError(f"{missed} bounds are missed")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.CalledProcessError) as failure:
        print(f"bench/tasks.py: {failure}", file=sys.stderr)
        sys.exit(1)
