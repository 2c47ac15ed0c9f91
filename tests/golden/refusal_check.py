#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Has faulty directories of golden_hf/hostile refused.

Usage: refusal_check.py BIN DATA

Each must end `mnemon-server` and `mnemon-train inspect` with exit code 1 and an error that
names what is wrong, within 1 s and 300 MB.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

SECONDS, BYTES, TRIES = 1.0, 300e6, 3


def run(command):
    """The error, its exit code, seconds, and bytes of memory."""
    with tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return (errors.read().decode(), process.returncode, seconds, 1024 * used.ru_maxrss)


def main():
    programs, data = sys.argv[1:]
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        hostile = os.path.join(data, 'golden_hf', 'hostile')
        subprocess.run([sys.executable, os.path.join(hostile, 'hostile_hf.py'),
                        os.path.join(data, 'golden_hf', 'models', 'llama_tied'), folder],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(hostile, 'expected.json'), encoding='utf-8') as file:
            cases = json.load(file)
        for case in cases:
            path = os.path.join(folder, case['name'])
            for command in (['mnemon-server', '--listen', '127.0.0.1:0', '--http', 'off',
                             '--checkpoint', path], ['mnemon-train', 'inspect', path]):
                command[0] = os.path.join(programs, command[0])
                # The least of some: other processes take time, too.
                error, code, seconds, memory = min(
                    (run(command) for _ in range(TRIES)), key=lambda found: found[2])
                fits = (code == 1 and case['contains'].lower() in error.lower() and
                        seconds <= SECONDS and memory <= BYTES)
                faults += 0 if fits else 1
                print(f'{"" if fits else "FAULT: "}{case["name"]}, '
                      f'{os.path.basename(command[0])}: {seconds:.2f} s, '
                      f'{memory / 1e6:.0f} MB: {error.strip()[:400]}')
    raise SystemExit(1 if faults else 0)


if __name__ == '__main__':
    main()
