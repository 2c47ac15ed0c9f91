# SPDX-License-Identifier: MIT
"""Calls to one server from threads: the channel, and what makes a call again."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from mnemon.errors import from_rpc_error
from mnemon.resume import Pause, Retry, Server, Stream, Tries
from mnemon.stubs import CHANNEL_OPTIONS, Stubs
from mnemon.target import target_of

_LOOK = 0.1  # seconds from one look at `stopped` to the next
# gRPC's thread that watches a channel ends within 0.2 s from the last pause on, and would
# print an error where the channel was closed before.
_WATCHED = 0.25


class Calls:
    """`timeout` bounds a unary call, in seconds."""

    def __init__(self, server: str, timeout: float, retry: Retry) -> None:
        self._channel = grpc.insecure_channel(target_of(server), CHANNEL_OPTIONS)
        self.stubs = Stubs(self._channel)
        self.timeout = timeout
        self.server = Server(retry)
        self._last_pause = -math.inf  # its end

    def close(self) -> None:
        time.sleep(max(self._last_pause + _WATCHED - time.monotonic(), 0.0))
        self._channel.close()

    def unary(
        self, method: Any, request: Any, *, repeat: bool = False, patient: bool = False
    ) -> Any:
        return self.unbounded(method, request, self.timeout, repeat=repeat, patient=patient)

    def unbounded(
        self,
        method: Any,
        request: Any,
        timeout: float | None,
        *,
        repeat: bool = False,
        patient: bool = False,
    ) -> Any:
        """`request`: a message, or what returns those of a try. `timeout` bounds one try.
        `repeat` and `patient`: see Tries.pause_of_unary."""
        tries = Tries(self.server, self.server.retry)
        while True:
            message = request() if callable(request) else request
            try:
                answer = method(message, timeout=timeout)
                tries.answered()
                return answer
            except grpc.RpcError as error:
                lost = from_rpc_error(error)
            self.wait(tries.pause_of_unary(lost, repeat, patient), _never)

    def start(self, stream: Stream) -> Any:
        return self.stubs.generation.Generate(stream.request, timeout=stream.tries.left())

    def wait(self, pause: Pause, stopped: Callable[[], bool]) -> None:
        """Until the end of `pause`, or until `stopped`."""
        # Without a call or a subscription gRPC goes on with a connection every 5 s only:
        # a thread that slept would not see the server come back.
        states: queue.SimpleQueue[grpc.ChannelConnectivity] = queue.SimpleQueue()
        self._channel.subscribe(states.put, try_to_connect=True)
        try:
            while (left := pause.left()) > 0 and not stopped():
                try:
                    pause.see(states.get(timeout=min(left, _LOOK)))
                except queue.Empty:
                    pass
        finally:
            self._channel.unsubscribe(states.put)
            self._last_pause = time.monotonic()


def _never() -> bool:
    return False


def responses(call: Any) -> Iterator[Any]:
    """The messages of a stream that is made once."""
    try:
        yield from call
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None
    finally:
        call.cancel()
