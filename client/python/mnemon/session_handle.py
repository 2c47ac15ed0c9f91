# SPDX-License-Identifier: MIT
"""What both clients know of a session."""

from __future__ import annotations

from typing import Any

from mnemon import messages
from mnemon.brief import table
from mnemon.resources import Checkpoint, SessionInfo
from mnemon.resume import Stream


def is_kept(session_id: str, keep: bool | None) -> bool:
    """At the end of `with`: what its caller says, else whether he gave it an id."""
    return bool(session_id) if keep is None else keep


def check_model(info: SessionInfo, model: str) -> None:
    """ValueError unless `model` is empty or the session's."""
    if model and model != info.model:
        raise ValueError(
            f"session {info.id!r} belongs to model {info.model!r}, not {model!r}"
        )


class SessionHandle:
    """What it knows without asking the server is from this object's own calls: other
    clients may have used the session since."""

    def __init__(self, info: SessionInfo, keep: bool) -> None:
        self.keep = keep
        self._info = info
        self._token_count = info.token_count
        self._stream: Stream | None = None  # of the newest generate()

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def model(self) -> str:
        return self._info.model

    @property
    def info(self) -> SessionInfo:
        """The newest answer of the server that describes the session."""
        return self._info

    @property
    def token_count(self) -> int:
        """Tokens of the history, as far as this object has seen."""
        return self._token_count

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Of `info`."""
        return self._info.checkpoints

    def _left_one(self) -> bool:
        """The newest generate() has not come to its end here: the server may not know yet
        that it was left."""
        return self._stream is not None and not self._stream.ended

    def _saw(self, token_count: int) -> None:
        self._token_count = token_count

    def _learn(self, message: Any) -> SessionInfo:
        self._info = messages.session_info(message)
        self._token_count = self._info.token_count
        return self._info

    def __repr__(self) -> str:
        return f"<Session {self.id!r}, model {self.model!r}, {self.token_count:,} tokens>"

    def _repr_html_(self) -> str:
        info = self._info
        expires = info.expire_time
        return table(
            f"session {info.id}",
            (
                ("model", info.model),
                ("tokens", self._token_count),
                ("bytes of state", info.state_size_bytes),
                ("parent", info.parent),
                ("checkpoints", ", ".join(c.id for c in info.checkpoints)),
                ("durability", info.durability),
                ("expires", expires and expires.strftime("%Y-%m-%d %H:%M:%S UTC")),
            ),
        )
