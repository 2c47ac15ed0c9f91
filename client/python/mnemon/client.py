# SPDX-License-Identifier: MIT
"""The client for threads. Safe for concurrent use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import grpc

from mnemon import requests, standard
from mnemon.errors import from_rpc_error
from mnemon.stubs import Stubs
from mnemon.target import target_of
from mnemon.v1 import generation_pb2, models_pb2, sessions_pb2


class Client:
    """`timeout` bounds every call but a stream, in seconds; a stream is bounded by its
    own `timeout` argument."""

    def __init__(self, server: str = "127.0.0.1:50051", *, timeout: float = 30.0):
        self._channel = grpc.insecure_channel(target_of(server))
        self._stubs = Stubs(self._channel)
        self._timeout = timeout

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def generate(
        self, prompt: requests.Prompt = "", *, timeout: float | None = None, **options
    ) -> Iterator[generation_pb2.GenerateResponse]:
        """Streams what follows `prompt`. Options: see requests.generate_request. Leaving
        the loop early cancels the call; a session then stands at the last token that
        was delivered."""
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
        model: str = "",
        ttl: float | None = requests.SESSION_TTL,
    ) -> sessions_pb2.Session:
        """The server deletes the session `ttl` seconds after its last use; None leaves that
        to the server's default."""
        request = requests.create_session_request(session_id, model=model, ttl=ttl)
        return self._call(self._stubs.sessions.CreateSession, request)

    def get_session(self, session_id: str):
        request = sessions_pb2.GetSessionRequest(name=requests.session_name(session_id))
        return self._call(self._stubs.sessions.GetSession, request)

    def list_sessions(self) -> Iterator[sessions_pb2.Session]:
        token = ""
        while True:
            request = sessions_pb2.ListSessionsRequest(page_token=token)
            page = self._call(self._stubs.sessions.ListSessions, request)
            yield from page.sessions
            token = page.next_page_token
            if not token:
                return

    def delete_session(self, session_id: str) -> None:
        request = sessions_pb2.DeleteSessionRequest(name=requests.session_name(session_id))
        self._call(self._stubs.sessions.DeleteSession, request)

    def list_models(self) -> list[models_pb2.Model]:
        request = models_pb2.ListModelsRequest()
        return list(self._call(self._stubs.models.ListModels, request).models)

    def is_serving(self, service: str = "") -> bool:
        """Of grpc.health.v1: "" is liveness, "mnemon.v1.Generation" readiness."""
        request = standard.HealthCheckRequest(service=service)
        return self._call(self._stubs.check_health, request).status == 1

    def _call(self, method, request):
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None


def _responses(call):
    try:
        yield from call
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None
    finally:
        call.cancel()
