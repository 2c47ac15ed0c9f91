# SPDX-License-Identifier: MIT
"""Models and sessions as the server describes them. Ids are without "models/" and
"sessions/"; names of values are those of the API."""

from __future__ import annotations

import dataclasses
import datetime

from mnemon.brief import Brief, table
from mnemon.options import Sampling


@dataclasses.dataclass(frozen=True, repr=False)
class Model(Brief):
    """One that the server has loaded."""

    id: str
    architecture: str
    vocab_size: int  # token ids are 0 .. vocab_size - 1
    context_limit: int | None  # tokens; None: no limit
    has_tokenizer: bool
    has_chat_template: bool
    eos_token_id: int | None
    parameter_count: int
    session_state_size_bytes: int  # at the context limit; or the constant size
    precision: str
    kernel_target: str
    generates: bool  # else it predicts
    introspection: tuple[str, ...]  # that its tokens have
    model_id: str  # SHA-256 of weights, config, tokenizer
    numerics_id: str
    config_json: str

    def __repr__(self) -> str:
        return (
            f"Model({self.id!r}, {self.architecture}, {self.parameter_count:,} parameters, "
            f"vocabulary {self.vocab_size:,}, {self.precision})"
        )

    def _repr_html_(self) -> str:
        limit = "unlimited" if self.context_limit is None else f"{self.context_limit:,}"
        return table(
            f"model {self.id}",
            (
                ("architecture", self.architecture),
                ("parameters", self.parameter_count),
                ("vocabulary", self.vocab_size),
                ("context", limit),
                ("bytes of a session", self.session_state_size_bytes),
                ("precision", self.precision),
                ("kernels", self.kernel_target),
                ("model_id", self.model_id[:16]),
            ),
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Checkpoint(Brief):
    """A state that a session can go back to."""

    id: str
    token_count: int  # in the history at that time
    create_time: datetime.datetime | None
    size_bytes: int


@dataclasses.dataclass(frozen=True, repr=False)
class SessionInfo(Brief):
    """A session at the time of an answer."""

    id: str
    model: str
    state: str  # "IDLE", "QUEUED", "RUNNING", "PAUSED", "DETACHED"
    token_count: int  # in the history
    state_size_bytes: int
    create_time: datetime.datetime | None
    last_use_time: datetime.datetime | None
    expire_time: datetime.datetime | None  # None: never
    etag: str  # changes with every change of the session
    parent: str  # the session it was forked from
    rebuilt: bool  # the state was computed again from the history
    durability: str  # "NONE", "TURN", "ALWAYS"
    sampling: Sampling  # of calls that bring none
    paused: bool
    tier: str  # "DEVICE", "HOST", "DISK"
    model_id: str
    numerics_id: str
    checkpoints: list[Checkpoint]  # oldest first

    def _repr_html_(self) -> str:
        expires = self.expire_time
        return table(
            f"session {self.id}",
            (
                ("model", self.model),
                ("tokens", self.token_count),
                ("state", f"{self.state}, {self.state_size_bytes:,} bytes, {self.tier}"),
                ("parent", self.parent),
                ("checkpoints", ", ".join(c.id for c in self.checkpoints)),
                ("durability", self.durability),
                ("expires", expires and expires.strftime("%Y-%m-%d %H:%M:%S UTC")),
            ),
        )


@dataclasses.dataclass(frozen=True, repr=False)
class History(Brief):
    """A part of a session's history."""

    first_index: int  # of tokens[0]
    tokens: list[int]
    text: str  # "" where the model has no tokenizer
    byte_offsets: list[int]  # of the first character of each token, in the text as UTF-8
    token_count: int  # in the whole history


@dataclasses.dataclass(frozen=True, repr=False)
class Verification(Brief):
    """What a check of a session found."""

    stored_form_valid: bool
    replay_equal: bool | None  # None: not replayed
    token_count: int
    state_size_bytes: int  # compared
    first_difference: str  # "" where there is none

    @property
    def ok(self) -> bool:
        return self.stored_form_valid and self.replay_equal is not False
