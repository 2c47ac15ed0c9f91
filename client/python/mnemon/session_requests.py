# SPDX-License-Identifier: MIT
"""Requests of the Sessions service out of keyword arguments, for both clients."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

from mnemon.options import (
    CreateOptions,
    ForkOptions,
    ImportOptions,
    Sampling,
    SessionOptions,
    UpdateOptions,
)
from mnemon.requests import SAMPLING, check_names, model_name, session_name, value_of
from mnemon.resources import Checkpoint
from mnemon.resume import new_request_id
from mnemon.v1 import sampling_pb2, sessions_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

SESSION_TTL = 86400.0  # seconds; default of sessions that are made new
_SESSION_OPTIONS = frozenset(SessionOptions.__annotations__)

Place = Union[int, str, Checkpoint]
"""Where rewind() goes: so many tokens, or a checkpoint or its id."""


def _set_choices(session: Any, options: Mapping[str, Any]) -> None:
    """Those of SessionOptions in `options`."""
    if (expire_time := options.get("expire_time")) is not None:
        if expire_time.tzinfo is None:
            raise ValueError("expire_time has no time zone")
        session.expire_time.FromDatetime(expire_time.astimezone(datetime.timezone.utc))
    elif (ttl := options.get("ttl")) is not None:
        session.ttl.FromNanoseconds(round(ttl * 1e9))
    if (durability := options.get("durability")) is not None:
        kind = sessions_pb2.Session.Durability
        session.durability = value_of("durability", durability, kind)
    if (sampling := options.get("sampling")) is not None:
        check_names(sampling, Sampling.__annotations__)
        fields = {k: v for k, v in sampling.items() if k in SAMPLING and v is not None}
        session.sampling.CopyFrom(sampling_pb2.Sampling(**fields))
        for token_id, bias in (sampling.get("logit_bias") or {}).items():
            session.sampling.logit_bias.add(token_id=token_id, bias=bias)


def create_session_request(session_id: str, **options: Unpack[CreateOptions]) -> Any:
    check_names(options, CreateOptions.__annotations__)
    request = sessions_pb2.CreateSessionRequest(
        session_id=session_id,
        session=sessions_pb2.Session(
            model=model_name(options.get("model", "")), paused=options.get("paused", False)
        ),
        request_id=options.get("request_id") or new_request_id(),
    )
    _set_choices(request.session, {"ttl": SESSION_TTL, **options})
    return request


def update_session_request(session_id: str, **options: Unpack[UpdateOptions]) -> Any:
    check_names(options, UpdateOptions.__annotations__)
    request = sessions_pb2.UpdateSessionRequest(
        session=sessions_pb2.Session(
            name=session_name(session_id), etag=options.get("etag", "")
        )
    )
    _set_choices(request.session, options)
    if (paused := options.get("paused")) is not None:
        request.session.paused = paused
    changed = _SESSION_OPTIONS | {"paused"}
    given = {k for k, v in options.items() if k in changed and v is not None}
    request.update_mask.paths.extend(sorted(given.union(options.get("fields", ()))))
    return request


def delete_session_request(session_id: str, etag: str, allow_missing: bool) -> Any:
    return sessions_pb2.DeleteSessionRequest(
        name=session_name(session_id), etag=etag, allow_missing=allow_missing
    )


def fork_session_request(
    session_id: str, fork_id: str, **options: Unpack[ForkOptions]
) -> Any:
    check_names(options, ForkOptions.__annotations__)
    request = sessions_pb2.ForkSessionRequest(
        name=session_name(session_id),
        session_id=fork_id,
        token_count=options.get("token_count"),
        request_id=options.get("request_id") or new_request_id(),
    )
    _set_choices(request.session, options)
    return request


def rewind_session_request(session_id: str, place: Place, etag: str) -> Any:
    request = sessions_pb2.RewindSessionRequest(name=session_name(session_id), etag=etag)
    if isinstance(place, int):
        if place < 0:
            raise ValueError(f"rewind takes the tokens that are kept, not {place}")
        request.token_count = place
    else:
        request.checkpoint_id = place if isinstance(place, str) else place.id
    return request


def checkpoint_session_request(session_id: str, checkpoint_id: str, request_id: str) -> Any:
    return sessions_pb2.CheckpointSessionRequest(
        name=session_name(session_id),
        checkpoint_id=checkpoint_id,
        request_id=request_id or new_request_id(),
    )


def import_session_open(
    session_id: str, size: int, **options: Unpack[ImportOptions]
) -> Any:
    """The first message."""
    check_names(options, ImportOptions.__annotations__)
    request = sessions_pb2.ImportSessionRequest()
    request.open.session_id = session_id
    request.open.session.model = model_name(options.get("model", ""))
    request.open.request_id = options.get("request_id") or new_request_id()
    request.open.size_bytes = size
    _set_choices(request.open.session, options)
    return request


def history_request(session_id: str, first_index: int | None, token_count: int) -> Any:
    return sessions_pb2.GetSessionHistoryRequest(
        name=session_name(session_id), first_index=first_index, token_count=token_count
    )


def verify_session_request(session_id: str, replay: bool) -> Any:
    return sessions_pb2.VerifySessionRequest(name=session_name(session_id), replay=replay)
