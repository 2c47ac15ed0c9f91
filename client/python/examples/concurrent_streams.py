#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Streams the continuations of several prompts at once with asyncio.

PYTHONPATH=client/python python3 client/python/examples/concurrent_streams.py 'It is ' 'An idea '
"""

import argparse
import asyncio
import sys

import mnemon


async def continuation(client: mnemon.aio.Client, prompt: str, max_tokens: int) -> str:
    text = prompt
    async for chunk in client.generate(prompt, max_tokens=max_tokens, seed=1, timeout=60):
        text += chunk.text
    return text


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompts", nargs="+")
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--max-tokens", type=int, default=100)
    flags = parser.parse_args()
    async with mnemon.aio.Client(flags.server) as client:
        try:
            texts = await asyncio.gather(
                *(
                    continuation(client, prompt, flags.max_tokens)
                    for prompt in flags.prompts
                )
            )
        except mnemon.Error as error:
            print(error, file=sys.stderr)
            return 1
    for text in texts:
        print(f"{text}\n---")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
