#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two builds of mnemon-bench beside each other: how much faster the second one is.

Examples:
  bench/versions.py old/bin/mnemon-bench build/release/bin/mnemon-bench
  bench/versions.py OLD NEW --arch causal --size XS --launches 9 --least 0.97
  bench/versions.py OLD NEW --command prefill --size S -- --threads 1

Both programs run at once, but one of them is always stopped: they go on in turns of 40 ms,
so that a clock or a neighbour that changes within seconds changes both. A ratio is the old
median by the new one. Where a program's memory lies changes from launch to launch, and at
XS its speed by a few percent, so the ratio that counts is the median of several launches;
of a program beside itself it tells how far to trust the others. What follows "--" goes to
both.

Exit code: 0 done, 1 failed or a ratio is below --least, 2 usage, 128 + N ended by signal N.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import architectures

ALL = ",".join(architectures.names(generating=True))
TURN = 0.04  # seconds
TIMES = {"step": "step_us", "prefill": "prompt_ms"}


def in_turns(commands):
    """What the two programs print."""
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in commands]
    try:
        turn = 0
        while all(program.poll() is None for program in programs):
            programs[1 - turn].send_signal(signal.SIGSTOP)
            programs[turn].send_signal(signal.SIGCONT)
            time.sleep(TURN)
            turn = 1 - turn
        for program in programs:
            if program.poll() is None:
                program.send_signal(signal.SIGCONT)
        printed = [program.communicate()[0] for program in programs]
    finally:
        for program in programs:
            if program.poll() is None:
                program.kill()
                program.wait()
    if any(program.returncode != 0 for program in programs):
        sys.exit(1)  # it has said why
    return printed


def medians(flags, architecture, size, batch):
    rest = [flags.command, "--arch", architecture, "--size", size, "--batch", str(batch),
            # While it is stopped, its clock goes on.
            "--seconds", str(2 * flags.seconds), "--json", *flags.rest]
    printed = in_turns([[flags.old, *rest], [flags.new, *rest]])
    return [json.loads(text)["results"][0][TIMES[flags.command]]["median"]
            for text in printed]


def parse_flags(arguments):
    rest = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, rest = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="a mnemon-bench")
    parser.add_argument("new", metavar="NEW", help="another one")
    parser.add_argument("--command", choices=sorted(TIMES), default="step")
    parser.add_argument("--arch", default=ALL, help="architectures (default: all)")
    parser.add_argument("--size", default="XS", help="sizes (default: XS)")
    parser.add_argument("--batch", default="1", help="sessions, like 1,16 (default: 1)")
    parser.add_argument("--seconds", type=float, default=2.0,
                        help="to measure each program in each launch (default: 2)")
    parser.add_argument("--launches", type=int, default=5, help="default: 5")
    parser.add_argument("--least", type=float, default=0.0,
                        help="fail where a ratio is below this")
    flags = parser.parse_args(arguments)
    if flags.launches < 1 or flags.seconds <= 0:
        parser.error("--launches and --seconds take a positive number")
    for program in (flags.old, flags.new):
        if not os.access(program, os.X_OK):
            parser.error(f"no program {program}")
    flags.rest = rest
    return flags


def main():
    flags = parse_flags(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))
    missed = False
    print("| size | batch | architecture | old | new | ratio | of the launches |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    for size in flags.size.split(","):
        for batch in flags.batch.split(","):
            for architecture in flags.arch.split(","):
                launches = [medians(flags, architecture, size, batch)
                            for _ in range(flags.launches)]
                ratios = [old / new for old, new in launches]
                ratio = statistics.median(ratios)
                old, new = (statistics.median(times) for times in zip(*launches))
                missed = missed or ratio < flags.least
                print(f"| {size} | {batch} | {architecture} | {old:,.2f} | {new:,.2f} | "
                      f"{ratio:.3f} | {min(ratios):.3f} to {max(ratios):.3f} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
