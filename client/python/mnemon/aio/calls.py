# SPDX-License-Identifier: MIT
"""Calls to one server from an event loop: the channel, and what makes a call again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from mnemon.errors import from_rpc_error
from mnemon.resume import Pause, Retry, Server, Stream, Tries
from mnemon.stubs import CHANNEL_OPTIONS, Stubs
from mnemon.target import target_of

_LOOK = 0.05  # seconds from one look at the channel to the next


class Calls:
    """As mnemon.calls.Calls."""

    def __init__(self, server: str, timeout: float, retry: Retry) -> None:
        self._channel = grpc.aio.insecure_channel(target_of(server), CHANNEL_OPTIONS)
        self.stubs = Stubs(self._channel)
        self.timeout = timeout
        self.server = Server(retry)

    async def close(self) -> None:
        await self._channel.close()

    async def unary(
        self, method: Any, request: Any, *, repeat: bool = False, patient: bool = False
    ) -> Any:
        return await self.unbounded(
            method, request, self.timeout, repeat=repeat, patient=patient
        )

    async def unbounded(
        self,
        method: Any,
        request: Any,
        timeout: float | None,
        *,
        repeat: bool = False,
        patient: bool = False,
    ) -> Any:
        tries = Tries(self.server, self.server.retry)
        while True:
            message = request() if callable(request) else request
            try:
                answer = await method(message, timeout=timeout)
                tries.answered()
                return answer
            except grpc.aio.AioRpcError as error:
                lost = from_rpc_error(error)
            await self.wait(tries.pause_of_unary(lost, repeat, patient), _never)

    def start(self, stream: Stream) -> Any:
        return self.stubs.generation.Generate(stream.request, timeout=stream.tries.left())

    async def wait(self, pause: Pause, stopped: Callable[[], bool]) -> None:
        # Looks at the state, because waiting for its next change cannot be given up.
        while not stopped():
            pause.see(self._channel.get_state(try_to_connect=True))
            left = pause.left()
            if left <= 0:
                return
            await asyncio.sleep(min(left, _LOOK))


def _never() -> bool:
    return False


async def responses(call: Any) -> AsyncIterator[Any]:
    """The messages of a stream that is made once."""
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
    finally:
        call.cancel()
