#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mnemon beside other programs that run the same models: microseconds per token.

Examples:
  DIR/bin/python bench/compare.py
  DIR/bin/python bench/compare.py --arch causal --size XS,S,M --threads 2 --json out.json

One session, batch 1. The weights are drawn by mnemon, written as a checkpoint, and read
by everyone else; each program must give mnemon's logits before its time counts. Programs
take turns: one round each, again and again. The floor is what the memory bandwidth of
the same run allows (bench/floor.h). Needs the packages of bench/requirements.txt in the
Python that runs it; what is missing is named in the table.

Exit code: 0 done, 1 failed or logits differ, 2 usage.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from peers import Missing, checkpoint as checkpoints  # noqa: E402
from peers.mnemon import Mnemon  # noqa: E402

ARCHITECTURES = ["feedback", "feedback_shared", "fast_weights", "transformer_xl", "causal"]
SIZES = ["XS", "S", "M", "G", "SEED"]
TOLERANCE = 1e-3  # of the largest logit


def names(known):
    def parse(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown '{name}'; known: {', '.join(known)}")
        return text.split(",")

    return parse


def positive(kind):
    def parse(text):
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError("must be positive")
        return value

    return parse


def parse_flags():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=names(ARCHITECTURES), default=ARCHITECTURES)
    parser.add_argument("--size", type=names(SIZES), default=["XS", "S", "SEED"])
    parser.add_argument("--context", type=positive(int), default=128,
                        help="tokens that the session has behind it")
    parser.add_argument("--threads", type=positive(int), default=os.cpu_count())
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--seconds", type=positive(float), default=1.0,
                        help="of each program in each round")
    parser.add_argument("--bin", default=os.environ.get("MNEMON_BIN", "build/release/bin"),
                        help="folder of mnemon's programs (MNEMON_BIN)")
    parser.add_argument("--json", help="also write the figures to this file")
    flags = parser.parse_args()
    if not (pathlib.Path(flags.bin) / "mnemon-bench").exists():
        parser.error(f"--bin: no mnemon-bench in {flags.bin}; build it first")
    return flags


def make_peers(checkpoint, prompt, flags):
    """The peers that run here, and why the others do not: (peers, {name: reason})."""
    peers, missing = [], {}
    for module, label in (("eager", "PyTorch eager"), ("reference", "labml-nn"),
                          ("llama", "llama.cpp"), ("ctranslate", "CTranslate2")):
        try:
            imported = __import__(f"peers.{module}", fromlist=[module])
            peers.append(imported.make(checkpoint, prompt, flags.threads))
        except (Missing, ImportError) as error:
            missing[label] = str(error)
    return peers, missing


def difference(peer, mnemon, checkpoint, prompt, flags):
    """Largest difference of the logits after the prompt, over the largest logit."""
    wanted = mnemon.logits(prompt)
    if hasattr(peer, "same_as"):
        wanted = peer.same_as(checkpoint, prompt, flags.threads).logits(prompt)
    return float(abs(peer.logits(prompt) - wanted).max() / abs(wanted).max())


def spread(samples):
    if len(samples) == 1:
        samples = samples * 2
    quarters = statistics.quantiles(samples, n=4, method="inclusive")
    return {"min": min(samples), "q25": quarters[0], "median": quarters[1],
            "q75": quarters[2]}


def compare(architecture, size, flags):
    """One row per program."""
    with tempfile.TemporaryDirectory() as work:
        directory = pathlib.Path(work) / "checkpoint"
        mnemon = Mnemon(flags.bin, architecture, size, flags.context, flags.threads, directory)
        checkpoint = checkpoints.read(directory, architecture)
        vocab = checkpoint.config["vocab"]
        prompt = [(i * 7919 + 13) % vocab for i in range(flags.context)]
        peers, missing = make_peers(checkpoint, prompt, flags)
        differences = [0.0] + [difference(peer, mnemon, checkpoint, prompt, flags)
                               for peer in peers]
        programs = [mnemon] + peers
        rounds = [[] for _ in programs]
        for _ in range(flags.rounds):
            for program, samples in zip(programs, rounds):
                samples.append(program.round(flags.seconds))
        floor = statistics.median(mnemon.floors)
        rows = []
        for program, samples, differs in zip(programs, rounds, differences):
            times = spread([sample for turn in samples for sample in turn])
            ratios = [statistics.median(turn) / statistics.median(own)
                      for turn, own in zip(samples, rounds[0])]
            rows.append({
                "architecture": architecture, "size": size, "program": program.name,
                "us_per_token": {key: value * 1e6 for key, value in times.items()},
                "floor_us": floor * 1e6, "floor_share": floor / times["median"],
                "times_mnemon": statistics.median(ratios),
                "logits_difference": differs,
                "same_logits": differs <= getattr(program, "tolerance", TOLERANCE),
                "steady": mnemon.steady})
        rows += [{"architecture": architecture, "size": size, "program": name,
                  "missing": reason} for name, reason in missing.items()]
        return rows


def print_table(rows):
    print("| model | size | program | us/token | quartiles | floor us | share | "
          "time / mnemon's | logits differ by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        if "missing" in row:
            continue
        times = row["us_per_token"]
        differs = f"{row['logits_difference']:.0e}" if row["logits_difference"] else "-"
        if not row["same_logits"]:
            differs += " (WRONG)"
        print(f"| {row['architecture']} | {row['size']} | {row['program']} | "
              f"{times['median']:.0f} | {times['q25']:.0f} to {times['q75']:.0f} | "
              f"{row['floor_us']:.0f} | {row['floor_share']:.1%} | "
              f"{row['times_mnemon']:.2f} | {differs} |")
    reasons = {}
    for row in rows:
        if "missing" in row:
            key = (row["program"], row["missing"])
            reasons.setdefault(key, []).append(f"{row['architecture']} {row['size']}")
    if reasons:
        print("\nNot in the table:\n")
    for (program, reason), models in reasons.items():
        print(f"- {program}, {', '.join(models)}: {reason}")


def main():
    flags = parse_flags()
    rows = []
    for size in flags.size:
        for architecture in flags.arch:
            print(f"compare.py: {architecture} {size}", file=sys.stderr)
            rows += compare(architecture, size, flags)
    print_table(rows)
    if flags.json:
        document = {"date": datetime.date.today().isoformat(), "machine": platform.machine(),
                    "cores": os.cpu_count(), "threads": flags.threads,
                    "context": flags.context, "rounds": flags.rounds,
                    "seconds": flags.seconds, "results": rows}
        pathlib.Path(flags.json).write_text(json.dumps(document, indent=2) + "\n")
    wrong = [row for row in rows if not row.get("same_logits", True)]
    for row in wrong:
        print(f"compare.py: {row['program']} gives other logits for {row['architecture']} "
              f"{row['size']}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"compare.py: {error}")
