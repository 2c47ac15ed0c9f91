#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the validation losses of training runs over the tokens trained, as one SVG.

Example:
  bench/curves.py curves.svg runs/causal runs/feedback

Each run is a directory that `mnemon-train fit` made: metrics.csv and last/ with the
configuration. Exit code: 0 done, 1 a file is missing or holds no validation, 2 usage.
"""

import argparse
import csv
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import plot  # noqa: E402


def tokens_per_update(run):
    text = (run / "last" / "training" / "config.toml").read_text()
    values = {}
    for key in ("batch", "seq_len"):
        match = re.search(rf"^{key} = (\d+)$", text, re.MULTILINE)
        if match is None:
            sys.exit(f"{run}: the configuration has no {key}")
        values[key] = int(match.group(1))
    return values["batch"] * values["seq_len"]


def curve(run):
    """Points (tokens, nats per token)."""
    try:
        with open(run / "metrics.csv", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["validation"]]
        per_update = tokens_per_update(run)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    if not rows:
        sys.exit(f"{run}/metrics.csv has no validation")
    return [(int(row["step"]) * per_update, float(row["validation"])) for row in rows]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=pathlib.Path, help="file to write")
    parser.add_argument("run", type=pathlib.Path, nargs="+", help="directory of a run")
    flags = parser.parse_args()
    flags.svg.write_text(plot.draw(
        [(run.name, curve(run)) for run in flags.run], "tokens trained",
        "validation, nats per token", label=lambda nats: f"{nats:.3f}"))


if __name__ == "__main__":
    main()
