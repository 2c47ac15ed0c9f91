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
import html
import math
import pathlib
import re
import sys

WIDTH, HEIGHT = 760, 400
LEFT, TOP, RIGHT, BOTTOM = 60, 20, 190, 50
COLOURS = ["#4878a8", "#c8553d", "#5a8f4e", "#8a63a6", "#b8862b", "#3f8f8f"]


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


def draw(curves):
    low = math.floor(min(y for _, points in curves for _, y in points) * 5) / 5
    high = math.ceil(max(y for _, points in curves for _, y in points) * 5) / 5
    first = math.log10(min(x for _, points in curves for x, _ in points))
    last = math.log10(max(x for _, points in curves for x, _ in points))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x, y):
        return (LEFT + wide * (math.log10(x) - first) / max(last - first, 1e-9),
                TOP + tall * (high - y) / max(high - low, 1e-9))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica,Arial,sans-serif" '
           f'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for tick in range(round(low * 5), round(high * 5) + 1):
        _, y = place(10**first, tick / 5)
        out.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" '
                   f'stroke="#e2e2e2"/><text x="{LEFT - 8}" y="{y + 4:.1f}" '
                   f'text-anchor="end" fill="#555">{tick / 5:.1f}</text>')
    for power in range(math.floor(first), math.ceil(last) + 1):
        for step in (1, 2, 5):
            tokens = step * 10**power
            if not first <= math.log10(tokens) <= last:
                continue
            x, _ = place(tokens, low)
            label = f"{tokens / 1e6:g} M" if tokens >= 1e6 else f"{tokens / 1e3:g} k"
            out.append(f'<text x="{x:.1f}" y="{TOP + tall + 18}" text-anchor="middle" '
                       f'fill="#555">{label}</text>')
    out.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle" '
               f'fill="#555">tokens trained</text>')
    out.append(f'<text transform="translate(18,{TOP + tall / 2}) rotate(-90)" '
               f'text-anchor="middle" fill="#555">validation, nats per token</text>')
    ends = sorted(((place(*points[-1]), i) for i, (_, points) in enumerate(curves)),
                  key=lambda end: end[0][1])
    below = -math.inf
    for (x, y), i in ends:
        name, points = curves[i]
        colour = COLOURS[i % len(COLOURS)]
        line = " ".join("%.1f,%.1f" % place(*point) for point in points)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" '
                   f'points="{line}"/>')
        label_y = max(y + 4, below + 15)
        below = label_y
        out.append(f'<text x="{LEFT + wide + 10}" y="{label_y:.1f}" fill="{colour}">'
                   f'{html.escape(name)} {points[-1][1]:.3f}</text>')
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("svg", type=pathlib.Path, help="file to write")
    parser.add_argument("run", type=pathlib.Path, nargs="+", help="directory of a run")
    flags = parser.parse_args()
    flags.svg.write_text(draw([(run.name, curve(run)) for run in flags.run]))


if __name__ == "__main__":
    main()
