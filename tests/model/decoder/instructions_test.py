#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions per step, counted by callgrind: what a change costs, without a clock.

instructions_test.py BENCH COUNT_STEPS

Counts on the target avx2 (valgrind does not decode AVX-512), one thread. A count beyond
its bound fails; one far below asks for a new bound. Skips (77) without valgrind or AVX2.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STEPS = 10
# Instructions of one step, XS, one session, after 120 to 130 tokens. A tenth of those
# of fast_weights replace small numbers of the state by zero (docs/numerics.md).
COUNTS = {"causal": 247993, "fast_weights": 240503, "feedback_shared": 251634}
MORE, LESS = 1.03, 0.90


def counted(count_steps, checkpoint, work):
    out = work / "callgrind.out"
    subprocess.run(
        ["valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no",
         "--toggle-collect=mnemon::CountedSteps*", f"--callgrind-out-file={out}",
         count_steps, checkpoint, "avx2"], check=True, timeout=600)
    return int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.M)[1]) // STEPS


def main(bench, count_steps):
    if shutil.which("valgrind") is None:
        print("SKIPPED: valgrind is not installed")
        return 77
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        print("SKIPPED: this machine has no AVX2")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for architecture, bound in COUNTS.items():
            checkpoint = work / architecture
            subprocess.run([bench, "checkpoint", "--arch", architecture, "--size", "XS",
                            "--out", checkpoint], check=True, timeout=600)
            count = counted(count_steps, checkpoint, work)
            print(f"{architecture}: {count} instructions per step, of {bound}")
            if not LESS * bound <= count <= MORE * bound:
                print(f"FAILED: {architecture} is outside {LESS} to {MORE} of its bound; "
                      "where that is meant, write the new count into COUNTS")
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
