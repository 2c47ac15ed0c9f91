#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How much longer a step takes beside processes that want every core: measures, prints.

Examples:
  bench/beside.py
  bench/beside.py --busy 4 --arch causal --size XS,S --seconds 5
  bench/beside.py --session ours

Alone and beside them in turns, --rounds times; the mean over all steps of all rounds, and
the middle one of the rounds' medians. A step may be ten times the median now and then,
while another process has the core: the mean has that in it.

Exit code: 0 done, 1 failed, 2 usage.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys

import architectures

# Ends with who started it, even if that was killed.
LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
ALL = ",".join(architectures.names(generating=True))


@contextlib.contextmanager
def busy(count, own_session):
    """So many processes that do nothing but use a core. Some schedulers deal the cores to
    sessions first, and then within each."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen(
                [sys.executable, "-c", LOOP], start_new_session=own_session))
            stack.callback(process.kill)
        yield


def measure(flags, architecture, size):
    run = subprocess.run(
        [flags.bench, "step", "--arch", architecture, "--size", size, "--precision",
         flags.precision, "--seconds", str(flags.seconds), "--json"],
        stdout=subprocess.PIPE, check=False)
    if run.returncode != 0:
        sys.exit(1)
    result = json.loads(run.stdout)["results"][0]
    return result["steps"], result["step_us"]["mean"], result["step_us"]["median"]


def summary(rounds):
    steps = sum(count for count, _, _ in rounds)
    mean = sum(count * mean for count, mean, _ in rounds) / steps
    return mean, statistics.median(median for _, _, median in rounds)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=2, help="processes beside it (default: 2)")
    parser.add_argument("--arch", default=ALL, help="architectures (default: all)")
    parser.add_argument("--size", default="XS,S,M", help="sizes (default: XS,S,M)")
    parser.add_argument("--precision", default="fp32", help="fp32 (default) or bf16")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="to measure each in each round (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--session", default="own", choices=["own", "ours"],
                        help="of each busy process: one of its own, as if another user "
                        "had started it (default), or the one of the step")
    parser.add_argument("--bench", default="build/release/bin/mnemon-bench")
    flags = parser.parse_args()
    if flags.busy < 1 or flags.rounds < 1:
        parser.error("--busy and --rounds take a number of at least 1")
    print(f"| size | architecture | alone: mean us | median | beside {flags.busy}: mean us | "
          "median | times, means | medians |\n|---|---|---|---|---|---|---|---|")
    for size in flags.size.split(","):
        for architecture in flags.arch.split(","):
            alone, beside = [], []
            for _ in range(flags.rounds):
                alone.append(measure(flags, architecture, size))
                with busy(flags.busy, flags.session == "own"):
                    beside.append(measure(flags, architecture, size))
            (a, a_median), (b, b_median) = summary(alone), summary(beside)
            print(f"| {size} | {architecture} | {a:,.0f} | {a_median:,.0f} | {b:,.0f} | "
                  f"{b_median:,.0f} | {b / a:.1f} | {b_median / a_median:.1f} |", flush=True)


if __name__ == "__main__":
    main()
