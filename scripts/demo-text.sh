# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced by scripts/demo: the model that is trained on a text.
# shellcheck disable=SC2154 # its variables

# Prose of the package fortunes: attributions, indentation and overstrikes removed; items
# with a rare sign (tables, program text, accents) left out, so that few characters are
# to be learnt.
prose() {
  local files=(art computers cookie definitions education food goedel humorists kids law
    literature love medicine miscellaneous news pets platitudes politics science sports
    tao people wisdom work)
  (cd /usr/share/games/fortunes && sed -e 's/.\x08//g' -e 's/\t/ /g' "${files[@]}") |
    LC_ALL=C awk '
      BEGIN { RS = "\n%\n" }
      {
        sub(/(^|\n) +--.*/, "")
        gsub(/  +/, " ")
        gsub(/\n +/, "\n")
        if ($0 !~ /[^A-Za-z0-9 .,;:!?\047"()\n-]/) print $0 "\n"
      }'
}

# To $out/text; sets `prompt`, words that the training does not see.
train_on_text() {
  if [[ -n $text ]]; then cat "$text"; else cat "$work/prose.txt"; fi > "$work/text.txt"
  local bytes split rest
  bytes=$(stat -c %s "$work/text.txt")
  [[ $bytes -ge $least_text ]] ||
    fail "the package fortunes holds too little text; reinstall it or give --text FILE"
  say "training $arch for $seconds s on ${text:-prose of the package fortunes} ($bytes bytes)"
  run "$bin/mnemon-train" fit --config "train/configs/$arch-small.toml" \
    --set "data.text=$work/text.txt" --set "train.seconds=$seconds" --out "$out/text" \
    --device "$device"
  # The trainer learns from the first nine tenths; the prompt is whole words of the rest.
  split=$((bytes * 9 / 10))
  local LC_ALL=C.UTF-8
  rest=$(head -c "$((split + 1000))" "$work/text.txt" | tail -c 1000 |
    iconv -c -f UTF-8 -t UTF-8 || true)
  rest=${rest#*[[:space:]]}
  rest=${rest#"${rest%%[![:space:]]*}"}
  prompt=${rest:0:60}
  prompt=${prompt%[[:space:]]*}
  head -c "$split" "$work/text.txt" | words | sort -u > "$work/words.txt"
}

# Its best checkpoint; the newest one where the time was too short for a validation.
trained() {
  local checkpoint=$out/$1/best
  [[ -d $checkpoint ]] || checkpoint=$out/$1/last
  printf '%s\n' "$checkpoint"
}

# Words of three letters or more on standard input, in lower case, one a line.
words() {
  LC_ALL=C.UTF-8 grep -aoE '[[:alpha:]]{3,}' | LC_ALL=C.UTF-8 sed 's/.*/\L&/' || true
}

continue_text() {
  "$bin/mnemon" generate --model "$1" --prompt "$prompt" --max-tokens 600 --temperature 0.5 \
    --seed 1 | tee "$work/stream.txt"
}

# show_text MODEL: what it streams, and whether those are words.
show_text() {
  local known total share
  say "a prompt for the model that was trained on the text, then what streams out of it:"
  printf '\n%s|' "$prompt"
  run continue_text "$1" || fail_with_log "mnemon generate failed"
  printf '\n\n'
  read -r known total < <(words < "$work/stream.txt" |
    awk 'NR == FNR { seen[$0]; next } { ++n; k += ($0 in seen) } END { print k + 0, n + 0 }' \
      "$work/words.txt" -)
  share=$((total > 0 ? known * 100 / total : 0))
  say "$share % of $total streamed words of three letters or more occur in the training text"
  if [[ $seconds -lt $default_seconds ]]; then
    say "a short run: a share below $least_share % is no failure"
  elif [[ $share -lt $least_share ]]; then
    fail "less than $least_share %"
  fi
}
