# SPDX-License-Identifier: MIT
"""The client for threads. Safe for concurrent use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mnemon import messages, requests, session_requests, standard
from mnemon.calls import Calls
from mnemon.errors import AlreadyExists, NotFound
from mnemon.generation import Generation, Scoring, ignore_count
from mnemon.options import (
    CreateOptions,
    GenerateOptions,
    ImportOptions,
    Prompt,
    ScoreOptions,
)
from mnemon.requests import Parts
from mnemon.resources import Model, SessionInfo
from mnemon.results import Prediction
from mnemon.resume import Retry, Stream
from mnemon.session import Session
from mnemon.session_handle import check_model, is_kept
from mnemon.snapshots import Snapshot, SnapshotReader, bytes_left, opened_snapshot
from mnemon.target import default_server
from mnemon.v1 import generation_pb2, models_pb2, sessions_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Client:
    """`server` is HOST:PORT, HOST, or a URI of gRPC; without one, MNEMON_SERVER of the
    environment or 127.0.0.1:50051. `timeout` bounds each try of every call but a stream,
    in seconds; a stream is bounded by its own `timeout` argument, over all its tries.

    Streams of generate() on a session, and those calls on sessions that do the same when
    they happen twice, are made again while the server is away, as `retry` says."""

    def __init__(
        self, server: str | None = None, *, timeout: float = 30.0, retry: Retry = Retry()
    ) -> None:
        self.server = server or default_server()
        self._calls = Calls(self.server, timeout, retry)
        self._stubs = self._calls.stubs

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mnemon.Client of {self.server}>"

    def close(self) -> None:
        self._calls.close()

    def generate(
        self,
        prompt: Prompt = "",
        *,
        model: str = "",
        session: str = "",
        timeout: float | None = None,
        resume: bool = True,
        progress: bool = False,
        **options: Unpack[GenerateOptions],
    ) -> Generation:
        """The stream of what follows `prompt`. Options: see options.GenerateOptions.
        `progress` shows how far it is, in a terminal or a notebook.

        With the id of a `session` the call continues it, as Session.generate does;
        without `resume` it is then made once."""
        request = requests.generate_request(prompt, model=model, session=session, **options)
        stream = Stream(request, self._calls.server, resume, timeout)
        return Generation(self._calls, stream, progress, ignore_count)

    def score(
        self,
        parts: Parts,
        *,
        model: str = "",
        timeout: float | None = None,
        **options: Unpack[ScoreOptions],
    ) -> Scoring:
        """How likely the tokens of one text are, or of several that follow each other."""
        sent = requests.score_requests(parts, model=model, **options)
        return Scoring(self._stubs.generation.Score(sent, timeout=timeout), ignore_count)

    def tokenize(self, text: str, *, model: str = "") -> list[int]:
        request = generation_pb2.TokenizeRequest(
            model=requests.model_name(model), text=text
        )
        return list(self._calls.unary(self._stubs.generation.Tokenize, request).tokens)

    def detokenize(self, tokens: Iterable[int], *, model: str = "") -> str:
        request = generation_pb2.DetokenizeRequest(
            model=requests.model_name(model), tokens=tokens
        )
        text: str = self._calls.unary(self._stubs.generation.Detokenize, request).text
        return text

    def predict(
        self,
        sequences: Iterable[Sequence[int]],
        *,
        model: str = "",
        mask: str = "",
        explicit_mask: bytes = b"",
        maps: str = "",
    ) -> Prediction:
        """One pass of an encoder over sequences of one length. `mask` is "none",
        "causal", or "explicit" with `explicit_mask`; `maps` "used" or "notebook"."""
        request = requests.predict_request(
            sequences, model=model, mask=mask, explicit_mask=explicit_mask, maps=maps
        )
        return messages.prediction(
            self._calls.unary(self._stubs.generation.Predict, request)
        )

    def session(
        self,
        session_id: str = "",
        *,
        keep: bool | None = None,
        **options: Unpack[CreateOptions],
    ) -> Session:
        """The session of this id, made with `options` if there is none; without an id
        always a new one. At the end of `with` one without an id is deleted, unless
        `keep` says otherwise."""
        for _ in range(2):  # others may make or delete it between two calls
            if session_id:
                try:
                    found = self.get_session(session_id)
                    check_model(found.info, options.get("model", ""))
                    found.keep = is_kept(session_id, keep)
                    return found
                except NotFound:
                    pass
            try:
                return self.create_session(session_id, keep=keep, **options)
            except AlreadyExists as error:
                taken = error
        raise taken

    def create_session(
        self,
        session_id: str = "",
        *,
        keep: bool | None = None,
        **options: Unpack[CreateOptions],
    ) -> Session:
        """A new session; AlreadyExists where the id is taken."""
        request = session_requests.create_session_request(session_id, **options)
        answer = self._calls.unary(self._stubs.sessions.CreateSession, request, repeat=True)
        return self._session(answer, is_kept(session_id, keep))

    def get_session(self, session_id: str) -> Session:
        request = sessions_pb2.GetSessionRequest(name=requests.session_name(session_id))
        answer = self._calls.unary(self._stubs.sessions.GetSession, request, repeat=True)
        return self._session(answer, True)

    def list_sessions(
        self, *, filter: str = "", order_by: str = "", page_size: int = 0
    ) -> Iterator[SessionInfo]:
        """`filter` in AIP-160, `order_by` in AIP-132; pages are asked for as they are
        needed."""
        request = sessions_pb2.ListSessionsRequest(
            filter=filter, order_by=order_by, page_size=page_size
        )
        while True:
            page = self._calls.unary(
                self._stubs.sessions.ListSessions, request, repeat=True
            )
            for session in page.sessions:
                yield messages.session_info(session)
            request.page_token = page.next_page_token
            if not request.page_token:
                return

    def delete_session(
        self, session_id: str, *, etag: str = "", allow_missing: bool = False
    ) -> None:
        request = session_requests.delete_session_request(session_id, etag, allow_missing)
        self._calls.unary(self._stubs.sessions.DeleteSession, request, repeat=allow_missing)

    def import_session(
        self,
        source: Snapshot,
        session_id: str = "",
        *,
        keep: bool | None = None,
        size: int | None = None,
        timeout: float | None = None,
        **options: Unpack[ImportOptions],
    ) -> Session:
        """A session of a snapshot: of a path, or of a file from where it stands to its
        end. Without `size`, the bytes to come, it must be one that can seek."""
        with opened_snapshot(source) as file:
            length = bytes_left(file) if size is None else size
            first = session_requests.import_session_open(session_id, length, **options)
            reader = SnapshotReader(first, file)
            answer = self._calls.unbounded(
                self._stubs.sessions.ImportSession,
                reader.messages,
                timeout,
                repeat=reader.repeats,
            )
        return self._session(answer, is_kept(session_id, keep))

    def list_models(self) -> list[Model]:
        request = models_pb2.ListModelsRequest()
        answer = self._calls.unary(self._stubs.models.ListModels, request)
        return [messages.model(message) for message in answer.models]

    def get_model(self, model: str) -> Model:
        request = models_pb2.GetModelRequest(name=requests.model_name(model))
        return messages.model(self._calls.unary(self._stubs.models.GetModel, request))

    def is_serving(self, service: str = "") -> bool:
        """Of grpc.health.v1: "" is liveness, "mnemon.v1.Generation" readiness."""
        request = standard.HealthCheckRequest(service=service)
        return bool(self._calls.unary(self._stubs.check_health, request).status == 1)

    def _session(self, message: Any, keep: bool) -> Session:
        return Session(self._calls, messages.session_info(message), keep)
