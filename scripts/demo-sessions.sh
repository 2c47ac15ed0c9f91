# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced by scripts/demo: what sessions can do, shown on the model `default`.
# shellcheck disable=SC2154 # its variables

# The command of mnemon that a person would type.
typed() {
  local word line='$ mnemon'
  for word in "$@"; do
    [[ $word =~ ^[A-Za-z0-9_./:=-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
    line+=" $word"
  done
  printf '%s\n' "$line"
}

# Not to a terminal: text as it is.
mnemon() { "$bin/mnemon" "$@" | cat; }

# A command as it is typed, and what comes of it.
type_in() {
  typed "$@"
  run mnemon "$@" || fail_with_log "mnemon $1 failed"
  [[ $1 != generate ]] || printf '\n'
}

tell() { "$bin/mnemon" "$@" > "$work/pipe" 2> "$work/notes"; }

tell_the_rest() { "$bin/mnemon" "$@" > "$work/rest"; }

# tell_beside_a_kill COMMAND...: the server is killed after the first 120 characters.
# All of the text goes to $work/told.
tell_beside_a_kill() {
  local begin rest='' letter pipe killed hint LC_ALL=C.UTF-8 # whole characters
  typed "$@"
  mkfifo "$work/pipe"
  : > "$work/rest"
  start tell "$@"
  job=$!
  exec {pipe}< "$work/pipe"
  IFS= read -r -t 120 -N 120 -u "$pipe" begin ||
    fail_with_log "mnemon generate failed: $(< "$work/notes")"
  killed=$server
  kill_server
  printf '%s' "$begin"
  serve
  printf '[kill -9 %s; another server goes on]' "$killed"
  while IFS= read -r -t 120 -N 1 -u "$pipe" letter; do
    printf '%s' "$letter"
    rest+=$letter
  done
  exec {pipe}<&-
  if ! wait "$job"; then
    # The start took longer than a client waits: the rest is asked for as it says.
    read -r -a hint < <(grep -oE -- '--session .* --resume-after [0-9]+' "$work/notes") ||
      fail_with_log "mnemon generate failed: $(< "$work/notes")"
    run tell_the_rest generate "${hint[@]}" || fail_with_log "mnemon generate failed"
    cat "$work/rest"
  fi
  job=
  printf '\n'
  grep -qE 'resumed|resume-after' "$work/notes" ||
    fail "the text had ended before the server was killed"
  { printf '%s' "$begin$rest" && cat "$work/rest"; } > "$work/told"
}

tell_the_twin() { "$bin/mnemon" "$@" > "$work/told_by_twin"; }

show_sessions() {
  local first=(--prompt "$prompt" --max-tokens 80 --temperature 0.5 --seed 1)
  local other=(--max-tokens 80 --temperature 0.5 --seed 2)
  local on=(--max-tokens 80 --temperature 0.5 --seed 3)
  local long=(--max-tokens 1000 --temperature 0.5 --seed 4)
  if [[ -n $chat ]]; then
    first=(--message 'What is the capital of France?' --temperature 0)
    other=(--message 'And of Italy?' --temperature 0)
    on=(--message 'Which river flows through it?' --temperature 0)
    long=(--message 'Write a short story of a boat on this river.' --max-tokens 114 --seed 7)
  fi
  say "a session keeps its memory on the server, so a call sends what is new alone"
  type_in sessions create demo
  type_in generate --session demo "${first[@]}"
  say "a fork goes another way, from the same memory"
  type_in sessions fork demo demo-fork
  type_in generate --session demo-fork "${other[@]}"
  type_in generate --session demo "${on[@]}"
  say "the server is killed in mid-sentence; another one takes its data directory"
  type_in sessions fork demo demo-twin
  tell_beside_a_kill generate --session demo "${long[@]}"
  run tell_the_twin generate --session demo-twin "${long[@]}" ||
    fail_with_log "mnemon generate failed"
  cmp "$work/told" "$work/told_by_twin" || fail "the text is not that of an uninterrupted session"
  say "demo-twin, which nobody interrupts, tells the same, to the byte;" \
    "so does the memory, computed again from all tokens:"
  type_in sessions verify demo --replay
}

# The first Python of README.md, as it stands there.
show_python() {
  awk '/^```python$/ { on = 1; next } /^```$/ && on { exit } on' README.md > "$work/readme.py"
  say "the Python of README.md:"
  sed 's/^./  &/' "$work/readme.py"
  PYTHONPATH=$work/python run /usr/bin/python3 -B "$work/readme.py" ||
    fail_with_log "the Python of README.md failed"
  run "$bin/mnemon" sessions delete anna
}
