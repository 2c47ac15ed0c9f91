# SPDX-License-Identifier: MIT
"""What is sent next after a call was lost, for both clients."""

from __future__ import annotations

import dataclasses
import random
import time
import uuid
from typing import Any

import grpc

from mnemon.errors import DataLoss, DeadlineExceeded, Error, NotFound, Unavailable
from mnemon.v1 import generation_pb2

_FIRST_PAUSE = 0.2  # seconds; doubled from try to try
_LONGEST_PAUSE = 10.0
# From the moment on at which the connection is there again: clients that lost the same
# server do not come back at once.
_SHORTEST_DELAY, _LONGEST_DELAY = 0.005, 0.05


def new_request_id() -> str:
    """A UUID, which names a call that can be made again."""
    return str(uuid.uuid4())


@dataclasses.dataclass(frozen=True)
class Retry:
    """How a call is made again whose server was lost."""

    tries: int = 10  # of a call, the first one included; 1: it is made once
    limit: float = 60.0  # seconds from a loss on


def is_busy(error: Error) -> bool:
    """Another call runs on the session, and the call was refused."""
    return error.reason == "SESSION_BUSY" and error.retry_after is not None


class Server:
    """What the calls of one client share. A server that was never reached is not waited
    for: perhaps another address was meant."""

    def __init__(self, retry: Retry) -> None:
        self.retry = retry
        self.reached = False


class Pause:
    """The time before a call is made again: `longest` seconds, or until a connection that
    was lost is ready again, but at least `shortest`. `lost`: it was not ready at the end
    of the pause before."""

    def __init__(self, shortest: float, longest: float, lost: bool) -> None:
        now = time.monotonic()
        self._earliest = now + shortest
        self._due = now + longest
        self.lost = lost

    def see(self, state: grpc.ChannelConnectivity) -> None:
        """The channel is in `state` now."""
        if state is not grpc.ChannelConnectivity.READY:
            self.lost = True
        elif self.lost:
            self.lost = False
            back = time.monotonic() + random.uniform(_SHORTEST_DELAY, _LONGEST_DELAY)
            self._due = min(self._due, max(back, self._earliest))

    def left(self) -> float:
        return max(self._due - time.monotonic(), 0.0)


class Tries:
    """The tries of one call, as `retry` says and within `timeout`, seconds or None."""

    def __init__(self, server: Server, retry: Retry, timeout: float | None = None) -> None:
        self._server = server
        self._retry = retry
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._failed = 0
        self._lost: float | None = None  # since when no try has brought anything
        self._pause: Pause | None = None  # the last one

    def left(self) -> float | None:
        """Seconds of the timeout for the next try."""
        if self._deadline is None:
            return None
        return max(self._deadline - time.monotonic(), 0.0)

    def answered(self) -> None:
        """Something came from the server."""
        self._server.reached = True

    def restart(self) -> None:
        """The call has come further: tries and time count anew."""
        self._failed = 0
        self._lost = None

    def pause(self, error: Error) -> Pause:
        """What to wait for after `error`, of a call that may be made again; raises what
        ends it."""
        if not isinstance(error, Unavailable) or error.details:
            self._server.reached = True
        now = time.monotonic()
        self._failed += 1
        if not self._server.reached or self._failed >= self._retry.tries:
            raise error
        if self._lost is None:
            self._lost = now
        pause = min(_FIRST_PAUSE * 2 ** min(self._failed - 1, 16), _LONGEST_PAUSE)
        pause *= random.uniform(0.8, 1.2)
        asked = error.retry_after.total_seconds() if error.retry_after is not None else 0.0
        pause = max(pause, asked)
        if now + pause > self._lost + self._retry.limit:
            raise error
        if self._deadline is not None and now + pause >= self._deadline:
            raise DeadlineExceeded(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"the deadline comes before the next try: {error.message}",
                error.details,
            )
        self._pause = Pause(asked, pause, self._pause is not None and self._pause.lost)
        return self._pause

    def pause_of_unary(self, error: Error, repeat: bool, patient: bool) -> Pause:
        """The same of any call. `repeat`: it may happen twice; `patient`: it may wait for
        the end of another call on its session."""
        lost = isinstance(error, Unavailable)
        if not lost:
            self._server.reached = True
        if (lost and repeat) or (patient and is_busy(error)):
            return self.pause(error)
        raise error


class Stream:
    """What has come of the stream of one Generate call, over all its tries. A call on a
    session goes on where it was lost, unless `resume` is false. A `patient` one waits
    where another call runs on the session: one that its caller has just left."""

    def __init__(
        self,
        request: Any,
        server: Server,
        resume: bool,
        timeout: float | None,
        patient: bool = False,
    ) -> None:
        self._resumes = resume and bool(request.session) and server.retry.tries > 1
        if self._resumes and not request.request_id:
            request.request_id = new_request_id()
        self.request = request  # to send now
        self.request_id: str = request.request_id
        stopping = request.stopping
        self.max_tokens = stopping.max_tokens if stopping.HasField("max_tokens") else None
        self.tries = Tries(server, server.retry, timeout)
        self._original = request
        self._patient = patient
        self.ended = False  # the last message came
        self._by_hand = request.HasField("resume_after_index")
        self._begun = False  # a message came, in this try or an earlier one
        self._told = False  # so did the facts of the prompt
        self._lost = False
        self._received = 0
        self.resumes = 0  # tries that took the stream up again
        self._last_index = request.resume_after_index if self._by_hand else -1

    def take(self, response: Any) -> Any:
        """What of a message is for the caller; None when he has it all."""
        self.tries.answered()
        self._begun = True
        if response.HasField("prompt"):
            if self._told:
                response.ClearField("prompt")
                if not response.ByteSize():
                    return None
            self._told = True
        self.ended = self.ended or response.HasField("finish")
        if response.tokens:
            if self._last_index >= 0 and response.first_index != self._last_index + 1:
                raise DataLoss(
                    grpc.StatusCode.DATA_LOSS,
                    f"the stream went on with token {response.first_index} after token "
                    f"{self._last_index}",
                    [],
                )
            self._received += len(response.tokens)
            self._last_index = response.first_index + len(response.tokens) - 1
            self.tries.restart()
        return response

    def pause(self, error: Error) -> Pause:
        """What to wait for after a try that ended with `error`, before `request` is sent;
        raises what ends the call."""
        if not self._resumes:
            raise error
        first, self._lost = not self._lost, True
        resumed = self.request.HasField("resume_after_index")
        if isinstance(error, NotFound) and resumed and not first:
            if self._received:
                raise self._ended(error, "the server has forgotten the call")
            # It took the prompt back, or did not keep it over a crash.
            if self._by_hand or error.reason != "REQUEST_UNKNOWN":
                raise error
            self.request = self._original
            self._begun = False
            return self.tries.pause(error)
        again = isinstance(error, Unavailable)
        if error.retry_after is not None:
            # A refusal of the first try is the caller's to judge. Later ones, such as
            # SESSION_BUSY while the server believes the lost stream alive, are part of
            # going on.
            admitted = self._begun or "prompt_taken" in error.metadata
            again = again or admitted or not first or (self._patient and is_busy(error))
        if not again:
            raise error
        if self._begun:
            self.request = generation_pb2.GenerateRequest(
                session=self._original.session,
                request_id=self._original.request_id,
                resume_after_index=self._last_index,
            )
            self.resumes += 1
        try:
            return self.tries.pause(error)
        except Error as last:
            raise self._ended(last, "the stream was lost") from None

    def _ended(self, error: Error, why: str) -> Error:
        if not self._received:
            return error
        came = f"{self._received} tokens came, the last one of index {self._last_index}"
        text = f"{came}, but {why}: {error.message}"
        return type(error)(error.code, text, error.details)
