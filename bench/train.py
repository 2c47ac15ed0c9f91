#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training beside the reference implementation, and for the causal model beside PyTorch as
one would write it today: the experiments of the documents, updates in turn, tokens per
second of each and the share of the machine's multiply-adds that mnemon reaches.

Examples:
  bench/train.py --text tinyshakespeare.txt
  bench/train.py --text tinyshakespeare.txt --case causal,xl-64 --rounds 5 --json FILE

mnemon runs as `mnemon-train fit`, whose first updates warm it up and are not counted; the
others run in this process. All compute with --threads threads. The losses of the first
batch must agree. Needs the packages of bench/requirements.txt. Exit code: 0 done, 1 failed,
2 usage.
"""

import argparse
import json
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

# Name, file of train/configs, what is set, updates of a round.
CASES = {
    "feedback_shared": ("feedback_shared", {}, 2),
    "feedback": ("feedback", {}, 2),
    "fast_weights": ("fast_weights", {}, 4),
    "xl-2": ("transformer_xl", {}, 100),
    "xl-64": ("transformer_xl", {"data.seq_len": 64}, 12),
    "causal": ("causal", {}, 4),
}


def parse_flags():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="file to train on")
    parser.add_argument("--case", default=",".join(CASES),
                        help=f"some of {','.join(CASES)} (default: all)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    parser.add_argument("--bin", default=os.environ.get("MNEMON_BIN", "build/release/bin"),
                        help="folder of mnemon's programs (default: MNEMON_BIN, or "
                        "build/release/bin)")
    parser.add_argument("--json", help="also write the figures to this file")
    flags = parser.parse_args()
    flags.case = flags.case.split(",")
    for case in flags.case:
        if case not in CASES:
            parser.error(f"argument --case: no case {case}: use some of {', '.join(CASES)}")
    if not pathlib.Path(flags.text).is_file():
        parser.error(f"argument --text: no file {flags.text}")
    if flags.rounds < 1 or flags.threads < 1:
        parser.error("argument --rounds, --threads: at least 1")
    return flags


class Mnemon:
    """`mnemon-train fit` of one case."""

    def __init__(self, case, flags, work):
        config, settings, self.updates = CASES[case]
        self.out = pathlib.Path(work) / case
        self.command = [f"{flags.bin}/mnemon-train", "fit",
                        "--config", f"train/configs/{config}.toml",
                        "--threads", str(flags.threads), "--out", str(self.out)]
        settings = {"data.text": flags.text, "train.log_every": self.updates,
                    "train.validation_batches": 1, "train.validate_every": 10**6,
                    "train.checkpoint_every": 10**6, "sample.tokens": 0, **settings}
        for key, value in settings.items():
            self.command += ["--set", f"{key}={value}"]

    def run(self, updates):
        subprocess.run(["rm", "-rf", str(self.out)], check=True)
        done = subprocess.run(
            self.command + ["--set", "train.epochs=0", "--set", f"train.steps={updates}"],
            capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(self.command)}: {done.stderr.strip()}")
        return done.stdout

    def tokens_per_second(self):
        """Of the last updates of a run; those before warm up."""
        lines = re.findall(r"^step .*?(\d+) tokens/s", self.run(2 * self.updates), re.M)
        return float(lines[-1])


def flops_per_token(config, time):
    """Of forward and backward: two for each multiply-add of a matrix or of attention, three
    times over: forward, and the gradients of inputs and of weights. What is computed again for
    the backward pass does not count."""
    d, f, layers = config["d_model"], config["d_ff"], config["layers"]
    linear = layers * (2 * d * d + 2 * d * f) + config["vocab"] * d
    return 6 * (linear + layers * MIXERS[config["architecture"]](config, d, time))


def attention(_, d, time):
    return 2 * d * d + 2 * d * time / 2


def segments(config, d, time):
    # Keys and values of the memory are projected for every segment; the memory itself gets no
    # gradient.
    memory = config["mem_len"]
    return 2 * d * d * (1 + 2 / 3 * memory / time) + 3 * d * (memory + time / 2)


def feedback(config, d, time):
    pairs = 1 / config["layers"] if config["projection"] == "shared" else 1
    return pairs * 2 * d * d + 3 * d * (time - 1) / 2


def fast_weights(config, d, _):
    heads, chunk = config["heads"], 32
    k = d // heads
    features = 2 * config["nu"] * k
    return 2 * d * d + d * heads + heads * (chunk * features + 3 * features * k + chunk * k)


# Multiply-adds of a layer and token beside those of all kinds.
MIXERS = {"causal": attention, "transformer_xl": segments, "feedback": feedback,
          "fast_weights": fast_weights}


def probe(flags):
    """Multiply-adds of all threads, GFLOP/s."""
    done = subprocess.run(
        [f"{flags.bin}/mnemon-bench", "linear", "--arch", "causal", "--size", "XS",
         "--seconds", "0.1", "--threads", str(flags.threads), "--json"],
        check=True, capture_output=True, text=True)
    return max(json.loads(done.stdout)["fma_gflops"].values())


def batches(text, config, time, rows, count):
    """Tokens and targets [T, B] of `count` batches, from the text in order."""
    import torch

    symbols = sorted(set(text))
    index = {symbol: i for i, symbol in enumerate(symbols)}
    ids = torch.tensor([index[c] for c in text[:rows * (time * count + 1)]])
    streams = ids.view(rows, -1).t()
    return [(streams[i * time:(i + 1) * time], streams[i * time + 1:(i + 1) * time + 1])
            for i in range(count)]


def measure(case, flags, work):
    import torch
    from peers import Missing, checkpoint, training

    torch.set_num_threads(flags.threads)
    mnemon = Mnemon(case, flags, work)
    mnemon.run(1)
    read = checkpoint.read(mnemon.out / "last")
    toml = (mnemon.out / "last/training/config.toml").read_text()
    field = lambda name: float(re.search(rf"^{name} = ([\d.e+-]+)", toml, re.M)[1])  # noqa: E731
    time_steps, rows, dropout = int(field("seq_len")), int(field("batch")), field("dropout")
    data = batches(pathlib.Path(flags.text).read_text(), read.config, time_steps, rows,
                   mnemon.updates)
    trainers, losses = [], []
    for make in (training.Reference, training.EagerCausal):
        try:
            trainers.append(make(read, dropout))
        except (ImportError, Missing) as missing:
            print(f"{case}: {make.name} left out: {missing}", file=sys.stderr)
            continue
        losses.append(trainers[-1].loss(data[0]))
        trainers[-1].update(data[0])  # warms up
    if losses and max(losses) - min(losses) > 1e-3:
        raise RuntimeError(f"{case}: the losses of one batch differ: {losses}")
    rates = {"mnemon": [], **{trainer.name: [] for trainer in trainers}}
    fma = []
    for _ in range(flags.rounds):
        fma.append(probe(flags))
        rates["mnemon"].append(mnemon.tokens_per_second())
        for trainer in trainers:
            begin, done = time.perf_counter(), 0
            for batch in data:
                trainer.update(batch)
                done += 1
                if time.perf_counter() - begin > 20:
                    break
            rates[trainer.name].append(done * time_steps * rows /
                                       (time.perf_counter() - begin))
    tokens = statistics.median(rates["mnemon"])
    share = tokens * flops_per_token(read.config, time_steps) / 1e9 / max(fma)
    return {"case": case, "tokens_per_second": rates, "fma_gflops": fma, "share": share}


def print_row(result):
    rates = {name: statistics.median(values)
             for name, values in result["tokens_per_second"].items()}
    own = rates.pop("mnemon")
    others = ", ".join(f"{name} {rate:,.0f} ({own / rate:.1f} times)"
                       for name, rate in rates.items())
    print(f"| {result['case']} | {own:,.0f} | {result['share']:.0%} | {others} |", flush=True)


def main():
    flags = parse_flags()
    results = []
    print(f"{tables.machine()}, {flags.threads} threads, load "
          f"{os.getloadavg()[0]:.1f}; tokens per second, medians of {flags.rounds} rounds\n")
    print("| case | mnemon | share of multiply-adds | others |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as work:
        for case in flags.case:
            results.append(measure(case, flags, work))
            print_row(results[-1])
            if flags.json:
                pathlib.Path(flags.json).write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, subprocess.CalledProcessError) as failure:
        print(f"bench/train.py: {failure}", file=sys.stderr)
        sys.exit(1)
