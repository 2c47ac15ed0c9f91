# SPDX-License-Identifier: MIT
"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import BinaryIO

import grpc

from mnemon import requests, session_requests, standard
from mnemon.errors import from_rpc_error
from mnemon.resume import ONCE, Pause, Retry, Server, Stream, Tries
from mnemon.stubs import CHANNEL_OPTIONS, Stubs
from mnemon.target import target_of
from mnemon.v1 import generation_pb2, models_pb2, sessions_pb2

_DEFAULT = object()
_LOOK = 0.05  # seconds from one look at the channel to the next


class Client:
    """As mnemon.Client; make it inside a running event loop."""

    def __init__(
        self,
        server: str = "127.0.0.1:50051",
        *,
        timeout: float = 30.0,
        retry: Retry = Retry(),
    ):
        self._channel = grpc.aio.insecure_channel(target_of(server), CHANNEL_OPTIONS)
        self._stubs = Stubs(self._channel)
        self._timeout = timeout
        self._server = Server(retry)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exception) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    def generate(
        self,
        prompt: requests.Prompt = "",
        *,
        timeout: float | None = None,
        resume: bool = True,
        **options,
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
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
    ) -> AsyncIterator[generation_pb2.ScoreResponse]:
        call = self._stubs.generation.Score(
            requests.score_requests(parts, model=model, session=session, commit=commit),
            timeout=timeout,
        )
        return _responses(call)

    async def tokenize(self, text: str, *, model: str = "") -> list[int]:
        request = generation_pb2.TokenizeRequest(model=requests.model_name(model), text=text)
        return list((await self._call(self._stubs.generation.Tokenize, request)).tokens)

    async def detokenize(self, tokens: Iterable[int], *, model: str = "") -> str:
        request = generation_pb2.DetokenizeRequest(
            model=requests.model_name(model), tokens=tokens
        )
        return (await self._call(self._stubs.generation.Detokenize, request)).text

    async def predict(self, request: generation_pb2.PredictRequest):
        return await self._call(self._stubs.generation.Predict, request)

    async def create_session(
        self,
        session_id: str = "",
        *,
        ttl: float | None = session_requests.SESSION_TTL,
        **options,
    ) -> sessions_pb2.Session:
        request = session_requests.create_session_request(session_id, ttl=ttl, **options)
        return await self._call(self._stubs.sessions.CreateSession, request, repeat=True)

    async def get_session(self, session_id: str) -> sessions_pb2.Session:
        request = sessions_pb2.GetSessionRequest(name=requests.session_name(session_id))
        return await self._call(self._stubs.sessions.GetSession, request, repeat=True)

    async def list_sessions(
        self, *, filter: str = "", order_by: str = "", page_size: int = 0
    ) -> list[sessions_pb2.Session]:
        request = session_requests.list_sessions_request(
            filter=filter, order_by=order_by, page_size=page_size
        )
        sessions = []
        while True:
            page = await self._call(self._stubs.sessions.ListSessions, request, repeat=True)
            sessions.extend(page.sessions)
            request.page_token = page.next_page_token
            if not request.page_token:
                return sessions

    async def update_session(self, session_id: str, **changes) -> sessions_pb2.Session:
        request = session_requests.update_session_request(session_id, **changes)
        # Its own first try would have changed the etag.
        repeat = not request.session.etag
        return await self._call(self._stubs.sessions.UpdateSession, request, repeat=repeat)

    async def delete_session(
        self, session_id: str, *, etag: str = "", allow_missing: bool = False
    ) -> None:
        request = session_requests.delete_session_request(
            session_id, etag=etag, allow_missing=allow_missing
        )
        await self._call(self._stubs.sessions.DeleteSession, request, repeat=allow_missing)

    async def fork_session(
        self, session_id: str, fork_id: str = "", **options
    ) -> sessions_pb2.Session:
        request = session_requests.fork_session_request(session_id, fork_id, **options)
        return await self._call(self._stubs.sessions.ForkSession, request, repeat=True)

    async def rewind_session(
        self,
        session_id: str,
        *,
        token_count: int | None = None,
        checkpoint_id: str | None = None,
        etag: str = "",
    ) -> sessions_pb2.Session:
        request = session_requests.rewind_session_request(
            session_id, token_count=token_count, checkpoint_id=checkpoint_id, etag=etag
        )
        return await self._call(self._stubs.sessions.RewindSession, request)

    async def checkpoint_session(
        self, session_id: str, checkpoint_id: str = "", *, request_id: str = ""
    ) -> sessions_pb2.Checkpoint:
        request = session_requests.checkpoint_session_request(
            session_id, checkpoint_id, request_id=request_id
        )
        return await self._call(
            self._stubs.sessions.CheckpointSession, request, repeat=True
        )

    async def export_session(
        self, session_id: str, file: BinaryIO, *, timeout: float | None = None
    ) -> sessions_pb2.Session:
        request = sessions_pb2.ExportSessionRequest(name=requests.session_name(session_id))
        writer = session_requests.SnapshotWriter(file)
        async for message in _responses(
            self._stubs.sessions.ExportSession(request, timeout=timeout)
        ):
            writer.take(message)
        return writer.finish()

    async def import_session(
        self,
        file: BinaryIO,
        session_id: str = "",
        *,
        size: int | None = None,
        timeout: float | None = None,
        **options,
    ) -> sessions_pb2.Session:
        if size is None:
            size = session_requests.bytes_left(file)
        first = session_requests.import_session_open(session_id, size, **options)
        reader = session_requests.SnapshotReader(first, file)
        return await self._call(
            self._stubs.sessions.ImportSession,
            reader.messages,
            timeout,
            repeat=reader.repeats,
        )

    async def verify_session(
        self, session_id: str, *, replay: bool = False, timeout: float | None = None
    ) -> sessions_pb2.VerifySessionResponse:
        request = session_requests.verify_session_request(session_id, replay=replay)
        if timeout is None and not replay:
            timeout = self._timeout
        return await self._call(self._stubs.sessions.VerifySession, request, timeout)

    async def list_models(self) -> list[models_pb2.Model]:
        request = models_pb2.ListModelsRequest()
        return list((await self._call(self._stubs.models.ListModels, request)).models)

    async def is_serving(self, service: str = "") -> bool:
        request = standard.HealthCheckRequest(service=service)
        return (await self._call(self._stubs.check_health, request)).status == 1

    def _start(self, stream: Stream):
        return self._stubs.generation.Generate(stream.request, timeout=stream.tries.left())

    async def _stream(self, stream: Stream, call):
        while True:
            try:
                async for response in call:
                    response = stream.take(response)
                    if response is not None:
                        yield response
                return
            except grpc.aio.AioRpcError as error:
                lost = from_rpc_error(error)
            finally:
                call.cancel()
            await self._wait(stream.pause(lost))
            call = self._start(stream)

    async def _call(self, method, request, timeout=_DEFAULT, *, repeat=False):
        """`request`: a message, or what returns those of a try. `repeat`: the call may
        happen twice."""
        if timeout is _DEFAULT:
            timeout = self._timeout
        tries = Tries(self._server, self._server.retry if repeat else ONCE)
        while True:
            message = request() if callable(request) else request
            try:
                answer = await method(message, timeout=timeout)
                tries.answered()
                return answer
            except grpc.aio.AioRpcError as error:
                lost = from_rpc_error(error)
            await self._wait(tries.pause_of_unary(lost))

    async def _wait(self, pause: Pause) -> None:
        # Looks at the state, because waiting for its next change cannot be given up.
        while True:
            pause.see(self._channel.get_state(try_to_connect=True))
            left = pause.left()
            if left <= 0:
                return
            await asyncio.sleep(min(left, _LOOK))


async def _responses(call):
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
    finally:
        call.cancel()
