#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a token costs after more and more others: measures, prints, draws one SVG.

Examples:
  bench/context.py context.svg
  bench/context.py --size S --seconds 2 --bench build/release/bin/mnemon-bench context.svg

One session, batch 1. Contexts double up to the limit of the model (causal and feedback
at 4096 positions) or, where a state has a constant size, up to --longest.

Exit code: 0 done, 1 failed, 2 usage.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import plot  # noqa: E402

ENDLESS = ("fast_weights", "transformer_xl")
LIMITED = ("causal", "feedback_shared", "feedback")
FIRST, POSITIONS = 64, 4096


def contexts(architecture, longest):
    limit = longest if architecture in ENDLESS else POSITIONS - 1
    context = FIRST
    while context < limit:
        yield context
        context *= 4 if context >= POSITIONS else 2
    yield limit


def measure(flags, architecture, context):
    run = subprocess.run(
        [flags.bench, "step", "--arch", architecture, "--size", flags.size, "--context",
         str(context), "--seconds", str(flags.seconds), "--json"],
        stdout=subprocess.PIPE, check=False)
    if run.returncode != 0:
        sys.exit(1)
    return json.loads(run.stdout)["results"][0]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=pathlib.Path, help="file to write")
    parser.add_argument("--size", default="XS", help="size of the models (default: XS)")
    parser.add_argument("--longest", type=int, default=1_000_000,
                        help="context of states of constant size (default: 1000000)")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="to measure each (default: 1)")
    parser.add_argument("--bench", default="build/release/bin/mnemon-bench")
    flags = parser.parse_args()
    curves = []
    head = "| architecture | context | us per token | decoder |\n|---|---|---|---|\n"
    for architecture in ENDLESS + LIMITED:
        points = []
        for context in contexts(architecture, flags.longest):
            result = measure(flags, architecture, context)
            median = result["step_us"]["median"]
            points.append((context, median))
            print(f"{head}| {architecture} | {context:,} | {median:,.1f} | {result['decoder']} |",
                  flush=True)
            head = ""
        curves.append((architecture, points))
    flags.svg.write_text(plot.draw(
        curves, f"Microseconds for one more token, size {flags.size}, one session, log scale",
        "tokens before it", label=lambda us: f"{us:.4g}", log_y=True))


if __name__ == "__main__":
    main()
