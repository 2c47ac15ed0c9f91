#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the step table and writes it as Markdown.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Examples:
  bench/step_table.sh > bench/step_table.md
  bench/step_table.sh --seconds 5 --threads 2

Options:
  --bin DIR       folder of mnemon-bench (default build/release/bin)
  --seconds N     of measuring each model (default 3)
  --threads N     cores of the probes and of decoders that use several (default: all)

Wants an idle machine. Exit code: 0 done, 1 failed, 2 usage.
TEXT
}

bin=build/release/bin
seconds=3
threads=0
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --bin | --seconds | --threads)
      [[ $# -ge 2 ]] || { printf 'step_table.sh: %s takes a value\n' "$1" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    *)
      printf "step_table.sh: unexpected argument '%s'\n\n" "$1" >&2
      usage >&2
      exit 2
      ;;
  esac
done

all=feedback,feedback_shared,fast_weights,transformer_xl,causal
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One run per size: its models take turns. G by itself needs several gigabytes.
measure() {
  printf 'step_table.sh: size %s, batch %s\n' "$1" "$2" >&2
  "$bin/mnemon-bench" step --arch "$all" --size "$1" --batch "$2" --context 128 \
    --threads "$threads" --seconds "$seconds" --json > "$work/$3.json"
}
run=10
for size in XS S M G SEED; do measure "$size" 1 $((run++)); done
for size in XS S; do measure "$size" 16 $((run++)); done

python3 - "$work"/*.json <<'PYTHON'
import json
import os
import sys

runs = [json.load(open(path)) for path in sys.argv[1:]]
first = runs[0]


def span(key):
    values = [run[key][when] for run in runs for when in ("before", "after")]
    return f"{min(values):.0f} to {max(values):.0f}"


def machine():
    with open("/proc/cpuinfo") as info:
        names = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    return f"{names[0] if names else 'unknown'}, {os.cpu_count()} cores"


print(f"""# Step table

One more token for each session, {first['results'][0]['context']} tokens after its start, float32.
Written by `bench/step_table.sh`; models of a size take turns in one run.

- Machine: {machine()}.
- Decoder: `{first['results'][0]['decoder']}`.
- Probes with {first['threads']} threads, before and after each run: {span('fma_gflops')} GFLOP/s,
  {span('memory_gbytes')} GB/s from memory; load average at the start of the runs
  {min(r['load_average'] for r in runs):.1f} to {max(r['load_average'] for r in runs):.1f}.
- Floor: `max((W + B S) / bandwidth, 2 P B / arithmetic)`, see [floor.h](floor.h); the
  bandwidth is read on a buffer of W + B S bytes. Share = floor / median.
- Allocations: calls of the heap per step.
- `*`: a probe moved by more than a tenth during the run; the figures beside it are to be
  read as sizes.

| size | batch | architecture | us per step | quartiles | p99 | tokens/s | read GB/s | floor us | share | allocations |
|---|---|---|---|---|---|---|---|---|---|---|""")
for run in runs:
    for r in run["results"]:
        step = r["step_us"]
        read = max(r["read_gbytes"].values())
        star = "" if r["steady"] else " \\*"
        print(f"| {r['size']} | {r['batch']} | {r['architecture']}{star} "
              f"| {step['median']:,.0f} | {step['q25']:,.0f} to {step['q75']:,.0f} "
              f"| {step['p99']:,.0f} | {r['tokens_per_second']:,.0f} | {read:.0f} "
              f"| {r['floor_us']['floor']:,.0f} | {r['floor_share']:.1%} "
              f"| {r['allocations_per_step']:,.0f} |")
PYTHON
