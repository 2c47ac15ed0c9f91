# SPDX-License-Identifier: MIT
"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import grpc

from mnemon import requests, standard
from mnemon.errors import from_rpc_error
from mnemon.stubs import Stubs
from mnemon.target import target_of
from mnemon.v1 import generation_pb2, models_pb2, sessions_pb2


class Client:
    """As mnemon.Client; make it inside a running event loop."""

    def __init__(self, server: str = "127.0.0.1:50051", *, timeout: float = 30.0):
        self._channel = grpc.aio.insecure_channel(target_of(server))
        self._stubs = Stubs(self._channel)
        self._timeout = timeout

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exception) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    def generate(
        self, prompt: requests.Prompt = "", *, timeout: float | None = None, **options
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
        call = self._stubs.generation.Generate(
            requests.generate_request(prompt, **options), timeout=timeout
        )
        return _responses(call)

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
        model: str = "",
        ttl: float | None = requests.SESSION_TTL,
    ) -> sessions_pb2.Session:
        request = requests.create_session_request(session_id, model=model, ttl=ttl)
        return await self._call(self._stubs.sessions.CreateSession, request)

    async def get_session(self, session_id: str):
        request = sessions_pb2.GetSessionRequest(name=requests.session_name(session_id))
        return await self._call(self._stubs.sessions.GetSession, request)

    async def list_sessions(self) -> list[sessions_pb2.Session]:
        sessions, token = [], ""
        while True:
            request = sessions_pb2.ListSessionsRequest(page_token=token)
            page = await self._call(self._stubs.sessions.ListSessions, request)
            sessions.extend(page.sessions)
            token = page.next_page_token
            if not token:
                return sessions

    async def delete_session(self, session_id: str) -> None:
        request = sessions_pb2.DeleteSessionRequest(name=requests.session_name(session_id))
        await self._call(self._stubs.sessions.DeleteSession, request)

    async def list_models(self) -> list[models_pb2.Model]:
        request = models_pb2.ListModelsRequest()
        return list((await self._call(self._stubs.models.ListModels, request)).models)

    async def is_serving(self, service: str = "") -> bool:
        request = standard.HealthCheckRequest(service=service)
        return (await self._call(self._stubs.check_health, request)).status == 1

    async def _call(self, method, request):
        try:
            return await method(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from None


async def _responses(call):
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from None
    finally:
        call.cancel()
