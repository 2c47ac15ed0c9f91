# SPDX-License-Identifier: MIT
"""Requests of the Sessions service out of keyword arguments, for both clients."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO

import grpc

from mnemon.errors import DataLoss
from mnemon.requests import SAMPLING, model_name, session_name
from mnemon.resume import new_request_id
from mnemon.v1 import sampling_pb2, sessions_pb2

SESSION_TTL = 86400.0  # seconds; default of create_session
_IMPORT_CHUNK = 1 << 18  # bytes


def _set_choices(
    session: sessions_pb2.Session,
    *,
    ttl: float | None = None,
    expire_time: datetime.datetime | None = None,
    durability: str | None = None,
    sampling: Mapping[str, object] | None = None,
) -> None:
    """What a caller chooses of a session. `ttl` in seconds after the last use;
    `expire_time` with a time zone, in place of it; `durability` "none", "turn" or
    "always"; `sampling` the fields of Sampling under their names."""
    if expire_time is not None:
        if expire_time.tzinfo is None:
            raise ValueError("expire_time has no time zone")
        session.expire_time.FromDatetime(expire_time.astimezone(datetime.timezone.utc))
    elif ttl is not None:
        session.ttl.FromNanoseconds(round(ttl * 1e9))
    if durability is not None:
        names = {name.lower(): name for name in sessions_pb2.Session.Durability.keys()[1:]}
        if durability not in names:
            raise ValueError(f"durability is {durability!r}, not one of {', '.join(names)}")
        session.durability = sessions_pb2.Session.Durability.Value(names[durability])
    if sampling is not None:
        unknown = sorted(sampling.keys() - SAMPLING - {"logit_bias"})
        if unknown:
            raise TypeError(f"unknown field of sampling {unknown[0]!r}")
        fields = {k: v for k, v in sampling.items() if k != "logit_bias" and v is not None}
        session.sampling.CopyFrom(sampling_pb2.Sampling(**fields))
        for token_id, bias in (sampling.get("logit_bias") or {}).items():
            session.sampling.logit_bias.add(token_id=token_id, bias=bias)


def create_session_request(
    session_id: str,
    *,
    model: str = "",
    ttl: float | None = SESSION_TTL,
    paused: bool = False,
    request_id: str = "",
    **choices,
) -> sessions_pb2.CreateSessionRequest:
    """Choices: see _set_choices; what is absent is the server's default."""
    request = sessions_pb2.CreateSessionRequest(
        session_id=session_id,
        session=sessions_pb2.Session(model=model_name(model), paused=paused),
        request_id=request_id or new_request_id(),
    )
    _set_choices(request.session, ttl=ttl, **choices)
    return request


def list_sessions_request(
    *, filter: str = "", order_by: str = "", page_size: int = 0
) -> sessions_pb2.ListSessionsRequest:
    return sessions_pb2.ListSessionsRequest(
        filter=filter, order_by=order_by, page_size=page_size
    )


def update_session_request(
    session_id: str,
    *,
    fields: Iterable[str] = (),
    etag: str = "",
    paused: bool | None = None,
    **choices,
) -> sessions_pb2.UpdateSessionRequest:
    """Changes what is given. `fields` names what is to get the server's default again."""
    request = sessions_pb2.UpdateSessionRequest(
        session=sessions_pb2.Session(name=session_name(session_id), etag=etag)
    )
    _set_choices(request.session, **choices)
    if paused is not None:
        request.session.paused = paused
    changes = {**choices, "paused": paused}
    given = [name for name, value in changes.items() if value is not None]
    request.update_mask.paths.extend(sorted({*given, *fields}))
    return request


def delete_session_request(
    session_id: str, *, etag: str = "", allow_missing: bool = False
) -> sessions_pb2.DeleteSessionRequest:
    return sessions_pb2.DeleteSessionRequest(
        name=session_name(session_id), etag=etag, allow_missing=allow_missing
    )


def fork_session_request(
    session_id: str,
    fork_id: str = "",
    *,
    token_count: int | None = None,
    request_id: str = "",
    **choices,
) -> sessions_pb2.ForkSessionRequest:
    """Choices as for create_session_request; what is absent is the parent's."""
    request = sessions_pb2.ForkSessionRequest(
        name=session_name(session_id),
        session_id=fork_id,
        token_count=token_count,
        request_id=request_id or new_request_id(),
    )
    _set_choices(request.session, **choices)
    return request


def rewind_session_request(
    session_id: str,
    *,
    token_count: int | None = None,
    checkpoint_id: str | None = None,
    etag: str = "",
) -> sessions_pb2.RewindSessionRequest:
    if (token_count is None) == (checkpoint_id is None):
        raise TypeError("give token_count or checkpoint_id")
    return sessions_pb2.RewindSessionRequest(
        name=session_name(session_id),
        token_count=token_count,
        checkpoint_id=checkpoint_id,
        etag=etag,
    )


def checkpoint_session_request(
    session_id: str, checkpoint_id: str = "", *, request_id: str = ""
) -> sessions_pb2.CheckpointSessionRequest:
    return sessions_pb2.CheckpointSessionRequest(
        name=session_name(session_id),
        checkpoint_id=checkpoint_id,
        request_id=request_id or new_request_id(),
    )


def import_session_open(
    session_id: str, size: int, *, model: str = "", request_id: str = "", **choices
) -> sessions_pb2.ImportSessionRequest:
    """The first message. Choices as for create_session_request; what is absent is the
    snapshot's."""
    request = sessions_pb2.ImportSessionRequest()
    request.open.session_id = session_id
    request.open.session.model = model_name(model)
    request.open.request_id = request_id or new_request_id()
    request.open.size_bytes = size
    _set_choices(request.open.session, **choices)
    return request


class SnapshotReader:
    """The messages of an import, out of `file`, once for each try; more than once only
    where `file` can seek."""

    def __init__(self, first: sessions_pb2.ImportSessionRequest, file: BinaryIO):
        self._first = first
        self._file = file
        self.repeats = file.seekable()
        self._begin = file.tell() if self.repeats else None
        # gRPC may still read on behalf of a try that has ended.
        self._lock = threading.Lock()
        self._try = 0

    def messages(self) -> Iterator[sessions_pb2.ImportSessionRequest]:
        with self._lock:
            self._try += 1
            if self.repeats:
                self._file.seek(self._begin)
            return self._messages(self._try)

    def _messages(self, mine: int) -> Iterator[sessions_pb2.ImportSessionRequest]:
        yield self._first
        while True:
            with self._lock:
                chunk = self._file.read(_IMPORT_CHUNK) if mine == self._try else b""
            if not chunk:
                return
            yield sessions_pb2.ImportSessionRequest(chunk=chunk)


def verify_session_request(
    session_id: str, *, replay: bool = False
) -> sessions_pb2.VerifySessionRequest:
    return sessions_pb2.VerifySessionRequest(name=session_name(session_id), replay=replay)


def bytes_left(file: BinaryIO) -> int:
    """From the place of `file`, which must be one that can seek, to its end."""
    begin = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(begin)
    return end - begin


class SnapshotWriter:
    """Writes a snapshot that comes to `file` and counts it against what its first message
    announces."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._first = None
        self._received = 0

    def take(self, message: sessions_pb2.ExportSessionResponse) -> None:
        if self._first is None:
            self._first = message
        self._received += len(message.chunk)
        self._file.write(message.chunk)

    def finish(self) -> sessions_pb2.Session:
        announced = self._first.size_bytes if self._first else 0
        if self._first is None or self._received != announced:
            raise DataLoss(
                grpc.StatusCode.DATA_LOSS,
                f"the server announced {announced} bytes and sent {self._received}",
                [],
            )
        return self._first.session
