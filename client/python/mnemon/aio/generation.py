# SPDX-License-Identifier: MIT
"""Streams of generate() and score() for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Any

import grpc

from mnemon import messages
from mnemon.aio.calls import Calls, responses
from mnemon.errors import Cancelled, from_rpc_error
from mnemon.progress import display
from mnemon.received import Received, Scored
from mnemon.results import Chunk, GenerateResult, ScoreResult, TokenLogprobs
from mnemon.resume import Stream


class Generation(Received, AsyncIterator[Chunk]):
    """The stream of one generate(). `async for` gives its chunks as they come; `await`
    reads what is left and gives the whole result. A stream whose task is cancelled, or
    that is left and dropped, is cancelled; with a name of its own, by cancel() or at the
    end of `async with`."""

    def __init__(
        self, calls: Calls, stream: Stream, progress: bool, seen: Callable[[int], None]
    ) -> None:
        """`seen` takes the tokens of the session's history."""
        super().__init__()
        self._calls = calls
        self._stream = stream
        self._seen = seen
        self._whole_wanted = False
        self._cancelled = False
        self._over = False
        self._display = display(progress, stream.max_tokens)
        self._call = calls.start(stream)

    @property
    def request_id(self) -> str:
        """Names the call for a later resume; "" where it cannot be resumed."""
        return self._stream.request_id

    async def result(self) -> GenerateResult:
        """All of it, once it has come."""
        self._whole_wanted = True
        async for _ in self:
            pass
        return self._whole(self._stream.resumes)

    def __await__(self) -> Generator[Any, None, GenerateResult]:
        return self.result().__await__()

    def cancel(self) -> None:
        """Who reads the stream gets Cancelled."""
        self._cancelled = True
        self._call.cancel()

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Chunk:
        if self._over:
            raise StopAsyncIteration
        try:
            chunk = messages.chunk(await self._next_message())
        except BaseException:
            self._end()
            raise
        self._take(chunk)
        self._display.see(chunk, self._whole_wanted)
        if chunk.tokens:
            self._seen(chunk.first_index + len(chunk.tokens))
        if chunk.finish is not None:
            self._seen(chunk.finish.token_count)
            self._display.end()
        return chunk

    def _end(self) -> None:
        self._over = True
        self._display.end()
        self._call.cancel()

    async def _next_message(self) -> Any:
        while True:
            try:
                while (response := await self._call.read()) is not grpc.aio.EOF:
                    response = self._stream.take(response)
                    if response is not None:
                        return response
                raise StopAsyncIteration
            except grpc.aio.AioRpcError as error:
                lost = from_rpc_error(error)
            except asyncio.CancelledError:
                # So a call ends that was cancelled by cancel(), too.
                self._stop_if_cancelled("the call was cancelled")
                raise
            self._call.cancel()
            if self.finish is not None:
                raise StopAsyncIteration
            self._stop_if_cancelled(lost.message)
            await self._calls.wait(self._stream.pause(lost), lambda: self._cancelled)
            self._stop_if_cancelled(lost.message)
            self._call = self._calls.start(self._stream)

    def _stop_if_cancelled(self, message: str) -> None:
        if self._cancelled:
            raise Cancelled(grpc.StatusCode.CANCELLED, message, [])


class Scoring(Scored, AsyncIterator[TokenLogprobs]):
    """The stream of one score(): how likely each token is, as it comes. `await` gives
    the whole result."""

    def __init__(self, call: Any, seen: Callable[[int], None]) -> None:
        super().__init__()
        self._call = call
        self._seen = seen
        self._tokens = self._read(responses(call))

    async def result(self) -> ScoreResult:
        """All of it, once it has come."""
        async for _ in self:
            pass
        return self._whole()

    def __await__(self) -> Generator[Any, None, ScoreResult]:
        return self.result().__await__()

    def cancel(self) -> None:
        """Nothing is committed then."""
        self._call.cancel()

    def __aiter__(self) -> Scoring:
        return self

    async def __anext__(self) -> TokenLogprobs:
        return await self._tokens.__anext__()

    async def _read(self, stream: AsyncIterator[Any]) -> AsyncIterator[TokenLogprobs]:
        async for response in stream:
            scored = messages.logprobs(response.logprobs)
            self._take(scored)
            if response.HasField("summary"):
                self._end(response.summary.token_count, response.summary.logprob_sum)
            for token in scored:
                yield token
        if self._logprobs:
            self._seen(self._logprobs[-1].index + 1)
