# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Sourced by scripts/demo: the server.
# shellcheck disable=SC2154 # its variables

address= # of gRPC, and of the page, from the first start on
http=

fail_with_log() { fail "$*: $(tail -n 20 "$work/server.log")"; }

# An address for a port of loopback: with a port that the system draws if it is taken.
address_with() {
  if /usr/bin/python3 - "$1" 2> /dev/null <<'PYTHON'; then
import socket, sys

# As the server binds it: a connection that was closed from this port also holds it.
with socket.socket() as probe:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", int(sys.argv[1])))
PYTHON
    printf '127.0.0.1:%s\n' "$1"
  else
    say "port $1 is taken; another one takes its place" >&2
    printf '127.0.0.1:0\n'
  fi
}

# Starts the server for `models` and waits until it serves; where it was before, if it was.
serve() {
  local listen=${address:-$(address_with 50051)} page=${http:-$(address_with 8000)}
  rm -f "$work/port"
  start "$bin/mnemon-server" "${models[@]}" --data-dir "$out/data" --device "$device" \
    --listen "$listen" --port-file "$work/port" \
    --http "$page" --http-port-file "$work/http_port" > "$work/server.log" 2>&1
  server=$!
  for _ in {1..600}; do
    if [[ -s $work/port ]]; then
      address=127.0.0.1:$(< "$work/port")
      http=127.0.0.1:$(< "$work/http_port")
      export MNEMON_SERVER=$address
      ! "$bin/mnemon" health --service mnemon.v1.Generation > /dev/null 2>&1 || return 0
    fi
    kill -0 "$server" 2> /dev/null || break
    sleep 0.1
  done
  fail_with_log "the server did not come up"
}

stop_server() {
  kill -TERM "$server"
  wait "$server" || fail_with_log "the server did not end in order"
  server=
}

# As a crash would: no signal handler runs.
kill_server() {
  kill -KILL "$server"
  wait "$server" 2> /dev/null || true
  server=
}
