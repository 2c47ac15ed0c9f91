# SPDX-License-Identifier: MIT
"""Requests out of keyword arguments, for both clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mnemon.v1 import generation_pb2, sampling_pb2

Prompt = str | Sequence[int]

# Keywords of generate() by the message that carries them.
SAMPLING = frozenset(
    "temperature top_k top_p min_p typical_p repetition_penalty frequency_penalty "
    "presence_penalty penalty_window_tokens seed".split()
)
_STOPPING = frozenset("max_tokens stop_token_ids stop_strings ignore_eos".split())
_OUTPUT = frozenset("logprobs top_candidate_count candidate_ids prompt_logprobs".split())


def session_name(session_id: str) -> str:
    return f"sessions/{session_id}" if session_id else ""


def model_name(model_id: str) -> str:
    return f"models/{model_id}" if model_id else ""


def prompt_message(prompt: Prompt) -> generation_pb2.Prompt:
    """Text is encoded by the server; a sequence of ints is token ids as they are."""
    if isinstance(prompt, str):
        return generation_pb2.Prompt(text=prompt)
    return generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=prompt))


def generate_request(
    prompt: Prompt,
    *,
    model: str = "",
    session: str = "",
    request_id: str = "",
    resume_after_index: int | None = None,
    expected_token_count: int | None = None,
    on_disconnect: str = "pause",
    logit_bias: Mapping[int, float] | None = None,
    time_limit: float | None = None,
    **options,
) -> generation_pb2.GenerateRequest:
    """`time_limit` in seconds; `on_disconnect` "pause" or "continue"; other options are
    the fields of GenerateRequest, Sampling, Stopping and OutputOptions in the proto,
    under their names. None means absent."""
    unknown = sorted(options.keys() - SAMPLING - _STOPPING - _OUTPUT)
    if unknown:
        known = sorted(SAMPLING | _STOPPING | _OUTPUT | {"logit_bias", "time_limit"})
        raise TypeError(f"unknown option {unknown[0]!r}; known: {', '.join(known)}")

    if on_disconnect not in ("pause", "continue"):
        raise ValueError(f"on_disconnect is {on_disconnect!r}, not pause or continue")
    if resume_after_index is not None and not (session and request_id):
        raise TypeError("resume_after_index needs session and request_id")

    def given(names: frozenset[str]) -> dict:
        return {k: v for k, v in options.items() if k in names and v is not None}

    request = generation_pb2.GenerateRequest(
        session=session_name(session),
        model=model_name(model),
        request_id=request_id,
        resume_after_index=resume_after_index,
        expected_token_count=expected_token_count,
        stopping=sampling_pb2.Stopping(**given(_STOPPING)),
        output=sampling_pb2.OutputOptions(**given(_OUTPUT)),
    )
    if on_disconnect == "continue":
        request.on_disconnect = generation_pb2.CONTINUE
    if prompt:
        request.prompt.CopyFrom(prompt_message(prompt))
    # Without any the session's own counts.
    if sampling := given(SAMPLING):
        request.sampling.CopyFrom(sampling_pb2.Sampling(**sampling))
    for token_id, bias in (logit_bias or {}).items():
        request.sampling.logit_bias.add(token_id=token_id, bias=bias)
    if time_limit is not None:
        request.stopping.time_limit.FromNanoseconds(round(time_limit * 1e9))
    return request


def score_requests(
    parts: Iterable[Prompt], *, model: str, session: str, commit: bool
) -> Iterator[generation_pb2.ScoreRequest]:
    yield generation_pb2.ScoreRequest(
        open=generation_pb2.ScoreRequest.Open(
            session=session_name(session), model=model_name(model), commit=commit
        )
    )
    for part in parts:
        yield generation_pb2.ScoreRequest(part=prompt_message(part))
