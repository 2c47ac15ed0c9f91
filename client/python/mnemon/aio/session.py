# SPDX-License-Identifier: MIT
"""One session of a server, for asyncio."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mnemon import messages, session_requests
from mnemon.aio.calls import Calls, responses
from mnemon.aio.generation import Generation, Scoring
from mnemon.errors import Error
from mnemon.generation import ignore_count
from mnemon.options import ForkOptions, GenerateOptions, Prompt, ScoreOptions, UpdateOptions
from mnemon.requests import Parts, generate_request, score_requests, session_name
from mnemon.resources import Checkpoint, History, SessionInfo, Verification
from mnemon.resume import Stream
from mnemon.session_handle import SessionHandle, is_kept
from mnemon.session_requests import Place
from mnemon.snapshots import Snapshot, SnapshotWriter, new_snapshot
from mnemon.v1 import sessions_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Session(SessionHandle):
    """What client.session() and its like come to. As mnemon.Session."""

    def __init__(self, calls: Calls, info: SessionInfo, keep: bool) -> None:
        super().__init__(info, keep)
        self._calls = calls
        self._stubs = calls.stubs.sessions

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.keep:
            return
        try:
            await self.delete(allow_missing=True)
        except Error:
            # What happened first counts; the server deletes the session after its ttl.
            if error is None:
                raise

    def generate(
        self,
        prompt: Prompt = "",
        *,
        timeout: float | None = None,
        resume: bool = True,
        progress: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """Continues the session by `prompt` and what follows it; the rest as of
        Client.generate. A stream whose server is lost is taken up again: every token and
        every piece of text comes once and in order."""
        request = generate_request(prompt, session=self.id, **options)
        stream = Stream(request, self._calls.server, resume, timeout, self._left_one())
        self._stream = stream
        return Generation(self._calls, stream, progress, self._saw)

    def score(
        self, parts: Parts, *, timeout: float | None = None, **options: Unpack[ScoreOptions]
    ) -> Scoring:
        """How likely `parts` are after the session's history, which they join with
        `commit`."""
        requests = score_requests(parts, session=self.id, **options)
        call = self._calls.stubs.generation.Score(requests, timeout=timeout)
        return Scoring(call, self._saw if options.get("commit") else ignore_count)

    async def refresh(self) -> SessionInfo:
        """Asks the server; the answer is `info` from now on."""
        request = sessions_pb2.GetSessionRequest(name=session_name(self.id))
        return await self._update(self._stubs.GetSession, request, repeat=True)

    async def update(self, **changes: Unpack[UpdateOptions]) -> SessionInfo:
        """Changes what is given."""
        request = session_requests.update_session_request(self.id, **changes)
        # Its own first try would have changed the etag.
        return await self._update(
            self._stubs.UpdateSession, request, repeat=not request.session.etag
        )

    async def rewind(self, place: Place, *, etag: str = "") -> SessionInfo:
        """Keeps the first `place` tokens, or goes back to a checkpoint."""
        request = session_requests.rewind_session_request(self.id, place, etag)
        return await self._update(
            self._stubs.RewindSession, request, patient=self._left_one()
        )

    async def checkpoint(
        self, checkpoint_id: str = "", *, request_id: str = ""
    ) -> Checkpoint:
        """Keeps the present state for rewind()."""
        request = session_requests.checkpoint_session_request(
            self.id, checkpoint_id, request_id
        )
        answer = await self._calls.unary(
            self._stubs.CheckpointSession, request, repeat=True
        )
        return messages.checkpoint(answer)

    def fork(
        self,
        session_id: str = "",
        *,
        keep: bool | None = None,
        **options: Unpack[ForkOptions],
    ) -> SessionToCome:
        """A new session with this one's history and memory, or with its first
        `token_count` tokens."""
        request = session_requests.fork_session_request(self.id, session_id, **options)
        call = self._calls.unary(self._stubs.ForkSession, request, repeat=True)
        return SessionToCome(made_session(self._calls, call, is_kept(session_id, keep)))

    async def export(
        self, target: Snapshot, *, timeout: float | None = None
    ) -> SessionInfo:
        """Writes the session as one snapshot. A path holds all of it or what it held
        before; a file may hold a part after an error."""
        request = sessions_pb2.ExportSessionRequest(name=session_name(self.id))
        with new_snapshot(target) as file:
            writer = SnapshotWriter(file)
            async for message in responses(
                self._stubs.ExportSession(request, timeout=timeout)
            ):
                writer.take(message)
            return messages.session_info(writer.finish())

    async def history(
        self, *, first_index: int | None = None, token_count: int = 0
    ) -> History:
        """Tokens of the history and their text: from `first_index` on, without it the
        newest ones; at most `token_count`, 0 = 1000, and never more than 4096."""
        request = session_requests.history_request(self.id, first_index, token_count)
        return messages.history(
            await self._calls.unary(self._stubs.GetSessionHistory, request, repeat=True)
        )

    async def verify(
        self, *, replay: bool = False, timeout: float | None = None
    ) -> Verification:
        """Checks what is stored; with `replay` the whole history is computed again and
        compared, and only `timeout` bounds that. A difference raises nothing."""
        request = session_requests.verify_session_request(self.id, replay)
        if timeout is None and not replay:
            timeout = self._calls.timeout
        return messages.verification(
            await self._calls.unbounded(self._stubs.VerifySession, request, timeout)
        )

    async def delete(self, *, etag: str = "", allow_missing: bool = False) -> None:
        request = session_requests.delete_session_request(self.id, etag, allow_missing)
        await self._calls.unary(self._stubs.DeleteSession, request, repeat=allow_missing)

    async def _update(self, method: Any, request: Any, **how: bool) -> SessionInfo:
        return self._learn(await self._calls.unary(method, request, **how))


class SessionToCome:
    """`await` it for the session, or enter it by `async with`."""

    def __init__(self, coming: Coroutine[Any, Any, Session]) -> None:
        self._coming = coming
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._coming.__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._coming
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, traceback)


async def made_session(calls: Calls, call: Coroutine[Any, Any, Any], keep: bool) -> Session:
    """Of the message that `call` answers."""
    return Session(calls, messages.session_info(await call), keep)
