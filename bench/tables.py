#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measurements as Markdown tables.

Examples:
  bench/tables.py step run.json ...      documents of `mnemon-bench step --json`
  bench/tables.py compare run.json ...   documents of `bench/compare.py --json`
  bench/tables.py serving run.json ...   documents of `mnemon-scenarios SCENARIO --out FILE`
  bench/tables.py sessions run.json ...  the same of sessions in a store

Several documents make one table. Exit code: 0 done, 1 failed, 2 usage.
"""

import argparse
import json
import os
import pathlib
import platform
import sys

import architectures

ARCHITECTURES = architectures.names(generating=True)
SIZES = ["XS", "S", "M", "G", "SEED"]
PRECISIONS = ["fp32", "bf16", "int8"]


def machine():
    names = []
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines()
                 if line.startswith("model name")]
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, size, kind = ((index / part).read_text().strip()
                             for part in ("level", "size", "type"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    described = f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
    return described + (f" ({', '.join(caches)})" if caches else "")


def span(values, decimals=0):
    least, most = f"{min(values):.{decimals}f}", f"{max(values):.{decimals}f}"
    return least if least == most else f"{least} to {most}"


def one(documents, key):
    """What all documents must agree on."""
    values = {json.dumps(document[key]) for document in documents}
    if len(values) != 1:
        raise ValueError(f"the documents differ in '{key}' ({', '.join(sorted(values))}): "
                         "not one table")
    return documents[0][key]


def probes(documents):
    """Of all documents: {"fma_gflops": [..], "memory_gbytes": [..]}."""
    return {key: [document[key][when] for document in documents
                  for when in ("before", "after")]
            for key in ("fma_gflops", "memory_gbytes")}


def microseconds(value):
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def star(steady):
    return "" if steady else " \\*"


STAR = """- `*`: a probe moved by more than a tenth during the run; the figures beside it are to be
  read as sizes."""


def step_table(runs):
    seen = probes(runs)
    results = [result for run in runs for result in run["results"]]
    context = one(results, "context")
    decoders = ", ".join(dict.fromkeys(
        f"`{result['decoder']}`" + (f" on {result['target']}" if "target" in result else "")
        for result in results))
    lines = [f"""# Step table

One more token for each session, {context} tokens after its start; state in float32.
Written by `bench/step_table.sh`; models of a size take turns in one run.

- Machine: {machine()}.
- Decoders: {decoders}.
- Probes with {one(runs, "threads")} threads, before and after each run: \
{span(seen["fma_gflops"])} GFLOP/s,
  {span(seen["memory_gbytes"])} GB/s from memory; load average at the start of the runs
  {span([run["load_average"] for run in runs], 1)}.
- Floor: `max((W + B S) / bandwidth, 2 P B / arithmetic)`, see [floor.h](kernels/floor.h); the
  bandwidth is read on a buffer of W + B S bytes. Share = floor / median.
- Allocations: calls of the heap per step.
{STAR}

| weights | size | batch | architecture | us per step | quartiles | p99 | tokens/s | read GB/s | \
floor us | share | allocations |
|---|---|---|---|---|---|---|---|---|---|---|---|"""]
    for r in results:
        step = r["step_us"]
        lines.append(
            f"| {r['precision']} | {r['size']} | {r['batch']} | {r['architecture']}{star(r['steady'])} "
            f"| {step['median']:,.0f} | {step['q25']:,.0f} to {step['q75']:,.0f} "
            f"| {step['p99']:,.0f} | {r['tokens_per_second']:,.0f} "
            f"| {max(r['read_gbytes'].values()):.0f} "
            f"| {microseconds(r['floor_us']['floor'])} | {r['floor_share']:.1%} "
            f"| {r['allocations_per_step']:,.0f} |")
    return "\n".join(lines)


def comparison_head(documents):
    seen = {key: [value for document in documents for value in document[key]]
            for key in ("fma_gflops", "memory_gbytes", "load_average")}
    gops = [value for document in documents for value in document.get("int8_gops", [])]
    int8 = f"{span(gops)} Gop/s of int8, " if gops else ""
    commands = "\n".join(document["command"] for document in documents)
    return f"""# Comparison

Microseconds for one more token of a session, {one(documents, "context")} tokens after its \
start: the time of a step
of `batch` sessions, divided by them. `weights` is the precision of mnemon's stored weights \
in that
comparison, `format` how each program stores its matrices. Written by

```
{commands}
```

- Machine: {one(documents, "machine")}.
- Programs: {one(documents, "mnemon")};
  {one(documents, "python")}, versions beside the names.
- Programs take turns: {one(documents, "rounds")} rounds of {one(documents, "seconds")} s each. \
`threads` is the number, out of
  {", ".join(map(str, one(documents, "threads")))}, with which a program was fastest.
- Every program gives mnemon's logits after the same {one(documents, "context")} tokens; \
llama.cpp, in each
  session of a batch, those of the weights in its file. The last column is the largest
  difference, relative to the largest logit.
- Probes in mnemon's rounds: {span(seen["fma_gflops"])} GFLOP/s, {int8}\
{span(seen["memory_gbytes"])} GB/s from memory; load average
  {span(seen["load_average"], 1)} at the start of the models.
- Floor: what the bandwidth and arithmetic of the same run allow with mnemon's
  weights, a step's divided by the sessions ([floor.h](kernels/floor.h)). Share = floor / median; a
  program with smaller weights, such as Q4_0, can be below it.
- `time / mnemon's`: the program's time over mnemon's of the same round, median of the rounds.
{STAR}

| weights | size | batch | architecture | program | format | threads | us/token | quartiles \
| floor us | share | time / mnemon's | logits differ by |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def comparison_row(row):
    times = row["us_per_token"]
    differs = f"{row['logits_difference']:.0e}" if row["logits_difference"] else "-"
    return (f"| {row['precision']} | {row['size']} | {row['batch']} "
            f"| {row['architecture']}{star(row['steady'])} | {row['program']} "
            f"| {row['format']} | {row['threads']} | {microseconds(times['median'])} "
            f"| {microseconds(times['q25'])} to {microseconds(times['q75'])} "
            f"| {microseconds(row['floor_us'])} | {100 * row['floor_share']:.2g}% "
            f"| {row['times_mnemon']:.3g} | {differs} |")


def comparison_rows(documents):
    """Sorted; documents from before --batch, --precision and formats do not name them."""
    rows = [{"batch": 1, "precision": "fp32", "format": "", **row}
            for document in documents for row in document["results"]]
    return sorted(rows, key=lambda row: (
        PRECISIONS.index(row["precision"]), SIZES.index(row["size"]), row["batch"],
        ARCHITECTURES.index(row["architecture"])))


def where(row):
    """The size, and what is not as in a plain comparison."""
    special = [f"batch {row['batch']}"] * (row["batch"] != 1)
    special += [row["precision"]] * (row["precision"] != "fp32")
    return row["size"] + (f" ({', '.join(special)})" if special else "")


def comparison_table(documents):
    rows = comparison_rows(documents)
    lines = [comparison_head(documents)]
    lines += [comparison_row(row) for row in rows if "us_per_token" in row]
    reasons = {}
    for row in rows:
        if "missing" in row:
            program = " ".join(filter(None, (row["program"], row["format"])))
            models = reasons.setdefault((program, row["missing"]), {})
            models.setdefault(row["architecture"], []).append(where(row))
    if reasons:
        lines.append("\nNot in the table:\n")
    for (program, reason), models in reasons.items():
        named = "; ".join(f"{name} {', '.join(sizes)}" for name, sizes in models.items())
        lines.append(f"- {program}, {named}: {reason}.")
    return "\n".join(lines)


HEADS = {
    "serving": """# Serving table

A server as its clients see it, over loopback, from `mnemon-scenarios` on the same machine. Written by
`scripts/check serving`.""",
    "sessions": """# Sessions at rest and in a store

Measured by their clients, over loopback, with `mnemon-scenarios` on the same machine. Written by
`scripts/check sessions`; [what is measured](README.md#sessions-in-a-store).""",
}


def scenario_table(kind, documents):
    lines = [f"""{HEADS[kind]}

- Machine: {machine()}; load average at the start of the scenarios
  {span([document["load_average"] for document in documents], 1)}.
- Server: {one(documents, "server")}.
- Slack {one(documents, "slack"):g}; a figure without a bar explains others.

| scenario | what | value | unit | bar | result |
|---|---|---|---|---|---|"""]
    for document in documents:
        for row in document["results"]:
            lines.append(f"| {document['scenario']} | {row['what']} | {row['value']:,.4g} "
                         f"| {row['unit']} | {row['bar']} | {row['result']} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["step", "compare", *HEADS])
    parser.add_argument("documents", nargs="+", metavar="run.json")
    flags = parser.parse_args()
    documents = []
    for path in flags.documents:
        try:
            documents.append(json.loads(pathlib.Path(path).read_text()))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
    try:
        if flags.kind in HEADS:
            print(scenario_table(flags.kind, documents))
        else:
            print({"step": step_table, "compare": comparison_table}[flags.kind](documents))
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a measurement of this kind: {error!r}") from error


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"tables.py: {error}")
