# SPDX-License-Identifier: MIT
"""The client for asyncio: as the one for threads, with `await` and `async`.

async with mnemon.aio.Client() as client:
    async with client.session("anna") as anna:
        async for chunk in anna.generate("It is ", max_tokens=100):
            print(chunk.text, end="", flush=True)
"""

from mnemon.aio.client import Client
from mnemon.aio.generation import Generation, Scoring
from mnemon.aio.session import Session, SessionToCome

__all__ = ["Client", "Generation", "Scoring", "Session", "SessionToCome"]
