#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains each *-small configuration for a moment, serves it, and prints a table: training
# and streaming in tokens per second, one stream alone and eight at once.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

usage() { echo 'bench/small_models.sh TEXT [SECONDS of training each]'; }
[[ $# -ge 1 && $# -le 2 ]] || fail_usage "expected one or two arguments, got $#"
text=$(from_caller "$1")
seconds=${2:-20}
bin=build/release/bin
[[ -x $bin/mnemon-server && -x $bin/mnemon-train && -x $bin/mnemon ]] ||
  fail "build first: cmake --preset release && cmake --build --preset release"

work=$(mktemp -d "${TMPDIR:-/tmp}/mnemon-bench.XXXXXX")
server=
stop_server() {
  if [[ -z $server ]]; then return; fi
  kill "$server"
  wait "$server" || true
  server=
}
cleanup() {
  stop_server
  rm -rf "$work"
}
trap cleanup EXIT

# tokens_per_second STREAMS CALLS: of so many streams at once, after their prompts.
tokens_per_second() {
  "$bin/mnemon" loadtest --server "$address" --concurrency "$1" --requests "$2" \
    --prompt-tokens 14 --max-tokens 400 --warmup 0 --json |
    python3 -c "import json, sys
print(round($1 / json.load(sys.stdin)['tpot_seconds']['median'], 1))"
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

echo '| architecture | training | one stream | eight streams |'
echo '|---|---|---|---|'
for arch in feedback feedback_shared fast_weights transformer_xl causal; do
  "$bin/mnemon-train" fit --config "train/configs/$arch-small.toml" \
    --set "data.text=$text" --set "train.seconds=$seconds" --out "$work/$arch" \
    > "$work/$arch.log"
  training=$(grep -a '^step' "$work/$arch.log" | grep -o '[0-9]* tokens/s' | median)
  "$bin/mnemon-server" --checkpoint "$work/$arch/last" --listen 127.0.0.1:0 \
    --port-file "$work/$arch.port" 2> /dev/null &
  server=$!
  for _ in {1..100}; do
    if [[ -s $work/$arch.port ]]; then break; fi
    sleep 0.1
  done
  address=127.0.0.1:$(< "$work/$arch.port")
  one=$(tokens_per_second 1 5)
  all=$(tokens_per_second 8 8)
  echo "| \`$arch\` | $training | $one | $all |"
  stop_server
done
