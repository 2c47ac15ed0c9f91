# SPDX-License-Identifier: MIT
"""The client for threads. Safe for concurrent use."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import grpc

from mnemon import requests, session_requests, standard
from mnemon.errors import from_rpc_error
from mnemon.resume import ONCE, Pause, Retry, Server, Stream, Tries
from mnemon.stubs import CHANNEL_OPTIONS, Stubs
from mnemon.target import target_of
from mnemon.v1 import generation_pb2, models_pb2, sessions_pb2

_DEFAULT = object()


class Client:
    """`timeout` bounds every call but a stream, in seconds; a stream is bounded by its
    own `timeout` argument, over all its tries.

    Streams of generate() on a session, and those calls on sessions that do the same when
    they happen twice, are made again while the server is away, as `retry` says."""

    def __init__(
        self,
        server: str = "127.0.0.1:50051",
        *,
        timeout: float = 30.0,
        retry: Retry = Retry(),
    ):
        self._channel = grpc.insecure_channel(target_of(server), CHANNEL_OPTIONS)
        self._stubs = Stubs(self._channel)
        self._timeout = timeout
        self._server = Server(retry)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def generate(
        self,
        prompt: requests.Prompt = "",
        *,
        timeout: float | None = None,
        resume: bool = True,
        **options,
    ) -> Iterator[generation_pb2.GenerateResponse]:
        """Streams what follows `prompt`. Options: see requests.generate_request. Leaving
        the loop early cancels the call; a session then stands at the last token that
        was delivered.

        On a session, a stream whose server is lost is taken up again as `retry` of the
        client says: every token and every piece of text comes once and in order. Without
        `resume` the call is made once, and without a request id ends where it is lost."""
        request = requests.generate_request(prompt, **options)
        stream = Stream(request, self._server, resume, timeout)
        return self._stream(stream, self._start(stream))

    def score(
        self,
        parts: Iterable[requests.Prompt],
        *,
        model: str = "",
        session: str = "",
        commit: bool = False,
        timeout: float | None = None,
    ) -> Iterator[generation_pb2.ScoreResponse]:
        """How likely the tokens of `parts`, one text in pieces, are. With `commit` they
        stay in the session."""
        call = self._stubs.generation.Score(
            requests.score_requests(parts, model=model, session=session, commit=commit),
            timeout=timeout,
        )
        return _responses(call)

    def tokenize(self, text: str, *, model: str = "") -> list[int]:
        request = generation_pb2.TokenizeRequest(model=requests.model_name(model), text=text)
        return list(self._call(self._stubs.generation.Tokenize, request).tokens)

    def detokenize(self, tokens: Iterable[int], *, model: str = "") -> str:
        request = generation_pb2.DetokenizeRequest(
            model=requests.model_name(model), tokens=tokens
        )
        return self._call(self._stubs.generation.Detokenize, request).text

    def predict(self, request: generation_pb2.PredictRequest):
        return self._call(self._stubs.generation.Predict, request)

    def create_session(
        self,
        session_id: str = "",
        *,
        ttl: float | None = session_requests.SESSION_TTL,
        **options,
    ) -> sessions_pb2.Session:
        """The server deletes the session `ttl` seconds after its last use; None leaves that
        to the server's default. Options: see session_requests.create_session_request."""
        request = session_requests.create_session_request(session_id, ttl=ttl, **options)
        return self._call(self._stubs.sessions.CreateSession, request, repeat=True)

    def get_session(self, session_id: str) -> sessions_pb2.Session:
        request = sessions_pb2.GetSessionRequest(name=requests.session_name(session_id))
        return self._call(self._stubs.sessions.GetSession, request, repeat=True)

    def list_sessions(
        self, *, filter: str = "", order_by: str = "", page_size: int = 0
    ) -> Iterator[sessions_pb2.Session]:
        """`filter` in AIP-160, `order_by` in AIP-132; pages are asked for as they are
        needed."""
        request = session_requests.list_sessions_request(
            filter=filter, order_by=order_by, page_size=page_size
        )
        while True:
            page = self._call(self._stubs.sessions.ListSessions, request, repeat=True)
            yield from page.sessions
            request.page_token = page.next_page_token
            if not request.page_token:
                return

    def update_session(self, session_id: str, **changes) -> sessions_pb2.Session:
        """Changes what is given: ttl, expire_time, durability, sampling, paused. `fields`
        names what gets the server's default again; a non-empty `etag` must be the present
        one (Aborted)."""
        request = session_requests.update_session_request(session_id, **changes)
        # Its own first try would have changed the etag.
        repeat = not request.session.etag
        return self._call(self._stubs.sessions.UpdateSession, request, repeat=repeat)

    def delete_session(
        self, session_id: str, *, etag: str = "", allow_missing: bool = False
    ) -> None:
        request = session_requests.delete_session_request(
            session_id, etag=etag, allow_missing=allow_missing
        )
        self._call(self._stubs.sessions.DeleteSession, request, repeat=allow_missing)

    def fork_session(
        self, session_id: str, fork_id: str = "", **options
    ) -> sessions_pb2.Session:
        """A new session with the history and memory of another one, or with its first
        `token_count` tokens. Options as of create_session; what is absent is the parent's."""
        request = session_requests.fork_session_request(session_id, fork_id, **options)
        return self._call(self._stubs.sessions.ForkSession, request, repeat=True)

    def rewind_session(
        self,
        session_id: str,
        *,
        token_count: int | None = None,
        checkpoint_id: str | None = None,
        etag: str = "",
    ) -> sessions_pb2.Session:
        """Forgets the newest tokens: to the first `token_count`, or to a checkpoint."""
        request = session_requests.rewind_session_request(
            session_id, token_count=token_count, checkpoint_id=checkpoint_id, etag=etag
        )
        return self._call(self._stubs.sessions.RewindSession, request)

    def checkpoint_session(
        self, session_id: str, checkpoint_id: str = "", *, request_id: str = ""
    ) -> sessions_pb2.Checkpoint:
        """Keeps the present state for rewind_session."""
        request = session_requests.checkpoint_session_request(
            session_id, checkpoint_id, request_id=request_id
        )
        return self._call(
            self._stubs.sessions.CheckpointSession, request, repeat=True
        )

    def export_session(
        self, session_id: str, file: BinaryIO, *, timeout: float | None = None
    ) -> sessions_pb2.Session:
        """Writes the session as one snapshot to `file`, opened in binary mode. After an
        error `file` holds a part of it."""
        request = sessions_pb2.ExportSessionRequest(name=requests.session_name(session_id))
        writer = session_requests.SnapshotWriter(file)
        for message in _responses(
            self._stubs.sessions.ExportSession(request, timeout=timeout)
        ):
            writer.take(message)
        return writer.finish()

    def import_session(
        self,
        file: BinaryIO,
        session_id: str = "",
        *,
        size: int | None = None,
        timeout: float | None = None,
        **options,
    ) -> sessions_pb2.Session:
        """A session of a snapshot, from where `file` stands to its end; without `size`,
        the bytes to come, `file` must be one that can seek. Options as of create_session;
        what is absent is the snapshot's."""
        if size is None:
            size = session_requests.bytes_left(file)
        first = session_requests.import_session_open(session_id, size, **options)
        reader = session_requests.SnapshotReader(first, file)
        return self._call(
            self._stubs.sessions.ImportSession,
            reader.messages,
            timeout,
            repeat=reader.repeats,
        )

    def verify_session(
        self, session_id: str, *, replay: bool = False, timeout: float | None = None
    ) -> sessions_pb2.VerifySessionResponse:
        """Checks what is stored; with `replay` the whole history is computed again and
        compared, and only `timeout` bounds that. A difference raises nothing."""
        request = session_requests.verify_session_request(session_id, replay=replay)
        if timeout is None and not replay:
            timeout = self._timeout
        return self._call(self._stubs.sessions.VerifySession, request, timeout)

    def list_models(self) -> list[models_pb2.Model]:
        request = models_pb2.ListModelsRequest()
        return list(self._call(self._stubs.models.ListModels, request).models)

    def is_serving(self, service: str = "") -> bool:
        """Of grpc.health.v1: "" is liveness, "mnemon.v1.Generation" readiness."""
        request = standard.HealthCheckRequest(service=service)
        return self._call(self._stubs.check_health, request).status == 1

    def _start(self, stream: Stream):
        return self._stubs.generation.Generate(stream.request, timeout=stream.tries.left())

    def _stream(self, stream: Stream, call):
        while True:
            try:
                for response in call:
                    response = stream.take(response)
                    if response is not None:
                        yield response
                return
            except grpc.RpcError as error:
                lost = from_rpc_error(error)
            finally:
                call.cancel()
            self._wait(stream.pause(lost))
            call = self._start(stream)

    def _call(self, method, request, timeout=_DEFAULT, *, repeat=False):
        """`request`: a message, or what returns those of a try. `repeat`: the call may
        happen twice."""
        if timeout is _DEFAULT:
            timeout = self._timeout
        tries = Tries(self._server, self._server.retry if repeat else ONCE)
        while True:
            message = request() if callable(request) else request
            try:
                answer = method(message, timeout=timeout)
                tries.answered()
                return answer
            except grpc.RpcError as error:
                lost = from_rpc_error(error)
            self._wait(tries.pause_of_unary(lost))

    def _wait(self, pause: Pause) -> None:
        # Without a call or a subscription gRPC goes on with a connection every 5 s only:
        # a thread that slept would not see the server come back.
        states = queue.SimpleQueue()
        self._channel.subscribe(states.put, try_to_connect=True)
        try:
            while (left := pause.left()) > 0:
                pause.see(states.get(timeout=left))
        except queue.Empty:
            pass
        finally:
            self._channel.unsubscribe(states.put)


def _responses(call):
    try:
        yield from call
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None
    finally:
        call.cancel()
