#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains every *-shakespeare configuration on TEXT, each on 9/10 of it, then prints what
# each makes of the other tenth, and draws how each got there.
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"

usage() { echo 'bench/learn.sh TEXT DIRECTORY [ARCHITECTURE[:SECONDS]...]'; }
[[ $# -ge 2 ]] || fail_usage "expected a text and a directory for the runs"
text=$(from_caller "$1")
out=$(from_caller "$2")
shift 2
plan=("$@")
[[ $# -gt 0 ]] || plan=(causal transformer_xl fast_weights feedback_shared feedback)
bin=build/release/bin
[[ -x $bin/mnemon-train ]] ||
  fail "build first: cmake --preset release && cmake --build --preset release"
mkdir -p "$out"

echo '| architecture | parameters | training s | validation, nats per character |'
echo '|---|---|---|---|'
runs=()
for item in "${plan[@]}"; do
  arch=${item%%:*}
  settings=("data.text=$text")
  [[ $item == "$arch" ]] || settings+=("train.seconds=${item##*:}")
  run=$out/$arch
  "$bin/mnemon-train" fit --config "train/configs/$arch-shakespeare.toml" --out "$run" \
    --set "${settings[@]}" > "$run.log" 2>&1 ||
    fail "training $arch failed: see $run.log"
  parameters=$(grep -aoE '[0-9]+ parameters' "$run.log" | head -n 1)
  took=$(grep -aoE 'updates in [0-9.]+' "$run.log" | tail -n 1)
  tokens=$(grep -aoE '[0-9]+ validation tokens' "$run.log" | head -n 1)
  # A character is a byte here: the tokens of the last part are the last bytes.
  tail -c "${tokens%% *}" "$text" > "$out/validation.txt"
  nats=$("$bin/mnemon-train" eval --checkpoint "$run/best" --text "$out/validation.txt" \
    2> /dev/null | grep -aoE '[0-9.]+ nats' | tail -n 1)
  echo "| \`$arch\` | ${parameters%% *} | ${took##* } | ${nats%% *} |"
  runs+=("$run")
done
"$bin/mnemon-train" plot "${runs[@]}" --x time --out "$out/learning.svg"
"$bin/mnemon-train" report "${runs[@]}" --out "$out/report.html" --svg "$out/pictures"
