# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced by the other scripts; changes to the repository's root.
set -euo pipefail
unset CDPATH
caller_dir=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=$(basename "$0")

say() { printf '%s: %s\n' "$name" "$*"; }

fail() {
  printf '%s: %s\n' "$name" "$*" >&2
  exit 1
}

# Wrong flags: what is wrong, then how it is used (the function `usage` of the script).
fail_usage() {
  printf '%s: %s\n\n' "$name" "$*" >&2
  usage >&2
  exit 2
}

# `path` as the caller of the script means it, made absolute.
from_caller() { (cd "$caller_dir" && realpath -m -- "$1"); }

# The virtual environment of the torch wheel; cmake/torch_wheel.cmake looks there too.
torch_venv() {
  printf '%s\n' "${MNEMON_TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/mnemon/torch-2.11.0}"
}

has_gpu() { nvidia-smi -L 2> /dev/null | grep -q .; }

# configure_and_build PRESET [-D...] [TARGET...]: all targets when none is named.
configure_and_build() {
  local preset=$1 settings=()
  shift
  while [[ ${1:-} == -D* ]]; do
    settings+=("$1")
    shift
  done
  local log=build/$preset/configure.log
  mkdir -p "build/$preset"
  if ! cmake --preset "$preset" "${settings[@]}" > "$log" 2>&1; then
    cat "$log" >&2
    fail "cmake --preset $preset failed"
  fi
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
