#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a token costs after more and more others: measures, prints, draws one SVG.

Examples:
  bench/context.py context.svg
  bench/context.py --size S --seconds 2 --bench build/release/bin/mnemon-bench context.svg

One session, batch 1, of every architecture that mnemon-bench knows. Contexts double up to
the limit of the model or, where a session has no end, up to --longest.

Exit code: 0 done, 1 failed, 2 usage.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import plot  # noqa: E402

FIRST, SEVERAL = 64, 4096


def step(flags, *arguments):
    return subprocess.run([flags.bench, "step", *map(str, arguments)], capture_output=True,
                          text=True, check=False)


def must_step(flags, *arguments):
    run = step(flags, *arguments)
    if run.returncode != 0:
        sys.exit(run.stderr.strip())
    return run.stdout


def architectures(flags):
    return re.search(r"Architectures: (.*)", must_step(flags, "--help"))[1].split(", ")


def contexts(flags, architecture):
    """Of a session that is as long as it may be; a step takes one token more."""
    refused = step(flags, "--arch", architecture, "--size", flags.size, "--context",
                   flags.longest, "--seconds", 0.01)
    most = re.search(r"at most (\d+) tokens", refused.stderr)
    limit = min(flags.longest, int(most[1]) - 1) if most else flags.longest
    context = FIRST
    while context < limit:
        yield context
        context *= 4 if context >= SEVERAL else 2
    yield limit


def measure(flags, architecture, context):
    run = must_step(flags, "--arch", architecture, "--size", flags.size, "--context", context,
                    "--seconds", flags.seconds, "--json")
    return json.loads(run)["results"][0]


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
    for architecture in architectures(flags):
        points = []
        for context in contexts(flags, architecture):
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
