#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures the step table and writes it as Markdown.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

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
      [[ $# -ge 2 ]] || fail_usage "$1 takes a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    *) fail_usage "unexpected argument '$1'" ;;
  esac
done
[[ $bin == build/release/bin ]] || bin=$(from_caller "$bin")
[[ -x $bin/mnemon-bench ]] || fail "no mnemon-bench in $bin: build it first"

all=feedback,feedback_shared,fast_weights,transformer_xl,causal
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure PRECISION BATCH SIZE...: one run per size, whose models take turns. G by itself
# needs several gigabytes.
run=100
measure() {
  local precision=$1 batch=$2 size
  for size in "${@:3}"; do
    printf 'step_table.sh: %s, size %s, batch %s\n' "$precision" "$size" "$batch" >&2
    run=$((run + 1))
    "$bin/mnemon-bench" step --arch "$all" --size "$size" --batch "$batch" --context 128 \
      --precision "$precision" --threads "$threads" --seconds "$seconds" --json \
      > "$work/$run.json"
  done
}
measure fp32 1 XS S M G SEED
measure bf16 1 XS S M G SEED
measure fp32 16 XS S M
measure fp32 64 XS S M

python3 bench/tables.py step "$work"/*.json
