# SPDX-License-Identifier: MIT
"""Streams of generate() and score() for threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import grpc

from mnemon import messages
from mnemon.calls import Calls, responses
from mnemon.errors import Cancelled, from_rpc_error
from mnemon.progress import display
from mnemon.received import Received, Scored
from mnemon.results import Chunk, GenerateResult, ScoreResult, TokenLogprobs
from mnemon.resume import Stream


def ignore_count(token_count: int) -> None:
    """For calls that no session follows."""


class Generation(Received, Iterator[Chunk]):
    """The stream of one generate(). Iterating gives its chunks as they come; `text` and
    result() read what is left. A stream that is given up, by leaving its loop or by
    Ctrl-C, is cancelled; with a name of its own, by cancel() or at the end of `with`."""

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

    @property
    def text(self) -> str:
        """The whole text, once it has come."""
        return self.result().text

    def result(self) -> GenerateResult:
        """All of it, once it has come."""
        self._whole_wanted = True
        for _ in self:
            pass
        return self._whole(self._stream.resumes)

    def cancel(self) -> None:
        """From any thread; who reads the stream gets Cancelled."""
        self._cancelled = True
        self._call.cancel()

    def __enter__(self) -> Generation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Chunk:
        if self._over:
            raise StopIteration
        try:
            chunk = messages.chunk(self._next_message())
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

    def _next_message(self) -> Any:
        while True:
            try:
                for response in self._call:
                    response = self._stream.take(response)
                    if response is not None:
                        return response
                raise StopIteration
            except grpc.RpcError as error:
                lost = from_rpc_error(error)
            self._call.cancel()
            if self.finish is not None:
                raise StopIteration
            self._stop_if_cancelled(lost.message)
            self._calls.wait(self._stream.pause(lost), lambda: self._cancelled)
            self._stop_if_cancelled(lost.message)
            self._call = self._calls.start(self._stream)

    def _stop_if_cancelled(self, message: str) -> None:
        if self._cancelled:
            raise Cancelled(grpc.StatusCode.CANCELLED, message, [])


class Scoring(Scored, Iterator[TokenLogprobs]):
    """The stream of one score(): how likely each token is, as it comes."""

    def __init__(self, call: Any, seen: Callable[[int], None]) -> None:
        super().__init__()
        self._call = call
        self._seen = seen
        self._tokens = self._read(responses(call))

    def result(self) -> ScoreResult:
        """All of it, once it has come."""
        for _ in self:
            pass
        return self._whole()

    def cancel(self) -> None:
        """From any thread; nothing is committed then."""
        self._call.cancel()

    def __iter__(self) -> Scoring:
        return self

    def __next__(self) -> TokenLogprobs:
        return next(self._tokens)

    def _read(self, stream: Iterator[Any]) -> Iterator[TokenLogprobs]:
        for response in stream:
            scored = messages.logprobs(response.logprobs)
            self._take(scored)
            if response.HasField("summary"):
                self._end(response.summary.token_count, response.summary.logprob_sum)
            yield from scored
        if self._logprobs:
            self._seen(self._logprobs[-1].index + 1)
