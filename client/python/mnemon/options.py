# SPDX-License-Identifier: MIT
"""What callers choose of a generation and of a session, as keyword arguments. Each is named
as the field of the API (proto/mnemon/v1); an absent one, or None, keeps the server's
default."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Optional, TypedDict, Union

Prompt = Union[str, Sequence[int]]
"""Text, which the server encodes, or token ids as they are."""


class Sampling(TypedDict, total=False):
    """How the next token is drawn: docs/api.md says in which order."""

    temperature: Optional[float]
    top_k: Optional[int]
    top_p: Optional[float]
    min_p: Optional[float]
    typical_p: Optional[float]
    repetition_penalty: Optional[float]
    frequency_penalty: Optional[float]
    presence_penalty: Optional[float]
    penalty_window_tokens: Optional[int]
    logit_bias: Optional[Mapping[int, float]]  # by token id
    seed: Optional[int]


Messages = Union[str, Sequence[Mapping[str, object]]]
"""A user's message, or messages with "role" and "content"."""


class GenerateOptions(Sampling, total=False):
    """Of generate()."""

    messages: Optional[Messages]  # in place of a prompt: in the model's chat template
    tools: Optional[Sequence[Mapping[str, object]]]  # with messages: of the template
    chat_template_kwargs: Optional[Mapping[str, object]]  # likewise
    unknown_characters: Optional[str]  # "refuse", "skip" or "replace", of the prompt
    max_tokens: Optional[int]
    stop_token_ids: Optional[Sequence[int]]
    stop_strings: Optional[Sequence[str]]
    ignore_eos: Optional[bool]
    time_limit: Optional[float]  # seconds from admission on
    logprobs: Optional[bool]
    top_candidate_count: Optional[int]
    candidate_ids: Optional[Sequence[int]]
    prompt_logprobs: Optional[bool]
    introspection: Optional[Sequence[str]]  # fields of Introspection
    request_id: Optional[str]  # a UUID
    resume_after_index: Optional[int]  # goes on with the call named request_id
    expected_token_count: Optional[int]  # of the session's history, else Aborted
    on_disconnect: Optional[str]  # "pause" or "continue"


class ScoreOptions(TypedDict, total=False):
    """Of score()."""

    commit: Optional[bool]  # the text joins the session's history
    top_candidate_count: Optional[int]
    candidate_ids: Optional[Sequence[int]]
    request_id: Optional[str]  # a UUID, with commit
    expected_token_count: Optional[int]


class SessionOptions(TypedDict, total=False):
    """Of sessions that are made or changed."""

    ttl: Optional[float]  # seconds from the last use on
    expire_time: Optional[datetime.datetime]  # with a time zone; in place of ttl
    durability: Optional[str]  # "none", "turn" or "always"
    sampling: Optional[Sampling]  # of calls that bring none


class CreateOptions(SessionOptions, total=False):
    """Of sessions that are made new. `ttl` is a day by default; None leaves it to the
    server."""

    model: str  # may be absent when the server has one
    paused: bool
    request_id: str  # a UUID; the same call again answers with the same session


class ForkOptions(SessionOptions, total=False):
    """Of forks; what is absent is the parent's."""

    token_count: Optional[int]  # tokens of the history to take over; absent: all
    request_id: str


class ImportOptions(SessionOptions, total=False):
    """Of imports; what is absent is the snapshot's."""

    model: str
    request_id: str


class UpdateOptions(SessionOptions, total=False):
    """Of changes. `fields` names what gets the server's default again."""

    paused: Optional[bool]
    fields: Sequence[str]
    etag: str  # must be the present one, else Aborted
