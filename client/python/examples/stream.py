#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Streams a continuation, and prints what to correct or when to retry.

PYTHONPATH=client/python python3 client/python/examples/stream.py 'It is ' --server 127.0.0.1:50051
"""

import argparse
import sys

import mnemon


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt")
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--session", default="")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temperature", type=float)
    flags = parser.parse_args()
    with mnemon.Client(flags.server) as client:
        try:
            for chunk in client.generate(
                flags.prompt,
                session=flags.session,
                max_tokens=flags.max_tokens,
                temperature=flags.temperature,
                timeout=60,
            ):
                print(chunk.text, end="", flush=True)
        except mnemon.Error as error:
            print(error, file=sys.stderr)
            for violation in error.field_violations:
                print(f"  {violation.field}: {violation.description}", file=sys.stderr)
            if error.retry_after is not None:
                seconds = error.retry_after.total_seconds()
                print(f"  try again in {seconds:g} s", file=sys.stderr)
            return 1
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
