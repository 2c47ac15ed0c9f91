# SPDX-License-Identifier: MIT
"""Time from start to serving, and memory, of mnemon-server over checkpoints.

    mnemon-bench checkpoint --arch causal --size G --out causal-g
    python3 bench/start.py build/release/bin/mnemon-server causal-g
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 5


def start(server, checkpoint, folder):
    """Seconds until the port is known, resident and most resident MB."""
    port = os.path.join(folder, "port")
    if os.path.exists(port):
        os.unlink(port)
    begin = time.monotonic()
    child = subprocess.Popen(
        [server, "--checkpoint", checkpoint, "--listen", "127.0.0.1:0", "--http", "",
         "--port-file", port], stderr=subprocess.PIPE)
    while not (os.path.exists(port) and os.path.getsize(port)):
        if child.poll() is not None:
            sys.exit(child.stderr.read().decode())
        time.sleep(0.001)
    seconds = time.monotonic() - begin
    with open(f"/proc/{child.pid}/status") as file:
        status = file.read()
    child.terminate()
    child.communicate()
    resident, most = (int(re.search(key + r":\s+(\d+)", status)[1]) * 1024 / 1e6
                      for key in ("VmRSS", "VmHWM"))
    return seconds, resident, most


def main():
    server, *checkpoints = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for checkpoint in checkpoints:
            runs = [start(server, checkpoint, folder) for _ in range(RUNS)]
            seconds = [run[0] for run in runs]
            print(f"{checkpoint}: {statistics.median(seconds):.3f} s "
                  f"(best {min(seconds):.3f}), resident {runs[-1][1]:.0f} MB, "
                  f"at most {runs[-1][2]:.0f} MB")


if __name__ == "__main__":
    main()
