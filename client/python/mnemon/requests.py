# SPDX-License-Identifier: MIT
"""Requests of the Generation service out of keyword arguments, for both clients."""

from __future__ import annotations

import json
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from mnemon.options import GenerateOptions, Prompt, Sampling, ScoreOptions
from mnemon.v1 import generation_pb2, sampling_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

Parts = Union[Prompt, Iterable[Prompt]]
"""One text or list of token ids, or several that follow each other."""

# Keywords of generate() by the message that carries them; the rest is the request's own.
SAMPLING = frozenset(Sampling.__annotations__) - {"logit_bias"}
_STOPPING = frozenset("max_tokens stop_token_ids stop_strings ignore_eos".split())
_TEMPLATE = frozenset(("tools", "chat_template_kwargs"))
_OUTPUT = frozenset("logprobs top_candidate_count candidate_ids prompt_logprobs".split())


def session_name(session_id: str) -> str:
    return f"sessions/{session_id}" if session_id else ""


def model_name(model_id: str) -> str:
    return f"models/{model_id}" if model_id else ""


def check_names(options: Mapping[str, object], known: Iterable[str]) -> None:
    """TypeError that names what of `options` is unknown."""
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; known: {', '.join(sorted(known))}")


def prompt_message(prompt: Prompt) -> Any:
    """Text is encoded by the server; a sequence of ints is token ids as they are."""
    if isinstance(prompt, str):
        return generation_pb2.Prompt(text=prompt)
    return generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=prompt))


def _conversation(chosen: Mapping[str, Any]) -> str:
    messages = chosen["messages"]
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    conversation = {"messages": list(messages)}
    for name in _TEMPLATE & chosen.keys():
        conversation[name] = chosen[name]
    return json.dumps(conversation, ensure_ascii=False)


def _prompt(prompt: Prompt, chosen: Mapping[str, Any]) -> Any:
    """The message of a prompt or of messages; None: there is neither."""
    if "messages" in chosen:
        if prompt:
            raise TypeError("give a prompt or messages, not both")
        message = generation_pb2.Prompt(conversation=_conversation(chosen))
    elif unused := _TEMPLATE & chosen.keys():
        raise TypeError(f"{min(unused)} needs messages")
    elif prompt:
        message = prompt_message(prompt)
    else:
        return None
    if name := chosen.get("unknown_characters"):
        if name not in ("refuse", "skip", "replace"):
            raise ValueError(
                f"unknown_characters is {name!r}, not refuse, skip or replace"
            )
        message.unknown_characters = generation_pb2.UnknownCharacters.Value(name.upper())
    return message


def generate_request(
    prompt: Prompt,
    *,
    model: str = "",
    session: str = "",
    **options: Unpack[GenerateOptions],
) -> Any:
    check_names(options, GenerateOptions.__annotations__)
    chosen = {name: value for name, value in options.items() if value is not None}
    on_disconnect = chosen.get("on_disconnect", "pause")
    if on_disconnect not in ("pause", "continue"):
        raise ValueError(f"on_disconnect is {on_disconnect!r}, not pause or continue")
    if "resume_after_index" in chosen and not (session and chosen.get("request_id")):
        raise TypeError("resume_after_index needs session and request_id")

    def given(names: frozenset[str]) -> dict[str, object]:
        return {name: value for name, value in chosen.items() if name in names}

    request = generation_pb2.GenerateRequest(
        session=session_name(session),
        model=model_name(model),
        stopping=sampling_pb2.Stopping(**given(_STOPPING)),
        output=sampling_pb2.OutputOptions(**given(_OUTPUT)),
        **given(frozenset(("request_id", "resume_after_index", "expected_token_count"))),
    )
    if on_disconnect == "continue":
        request.on_disconnect = generation_pb2.CONTINUE
    if (message := _prompt(prompt, chosen)) is not None:
        request.prompt.CopyFrom(message)
    # Without any the session's own counts.
    if sampling := given(SAMPLING):
        request.sampling.CopyFrom(sampling_pb2.Sampling(**sampling))
    for token_id, bias in (options.get("logit_bias") or {}).items():
        request.sampling.logit_bias.add(token_id=token_id, bias=bias)
    if (limit := options.get("time_limit")) is not None:
        request.stopping.time_limit.FromNanoseconds(round(limit * 1e9))
    if views := options.get("introspection"):
        request.output.introspection.paths.extend(
            [views] if isinstance(views, str) else views
        )
    return request


def _in_parts(parts: Parts) -> Iterable[Prompt]:
    if isinstance(parts, str):
        return [parts]
    if isinstance(parts, Sequence) and all(
        isinstance(item, numbers.Integral) for item in parts
    ):
        ids: Any = parts
        return [ids]
    several: Any = parts
    return several  # type: ignore[no-any-return]


def score_requests(
    parts: Parts, *, model: str = "", session: str = "", **options: Unpack[ScoreOptions]
) -> Iterator[Any]:
    check_names(options, ScoreOptions.__annotations__)
    chosen = {name: value for name, value in options.items() if value is not None}
    output = {name: chosen.pop(name) for name in _OUTPUT & chosen.keys()}
    opened = generation_pb2.ScoreRequest.Open(
        session=session_name(session),
        model=model_name(model),
        output=sampling_pb2.OutputOptions(**output),
        **chosen,
    )
    return _score_messages(opened, _in_parts(parts))


def _score_messages(opened: Any, parts: Iterable[Prompt]) -> Iterator[Any]:
    yield generation_pb2.ScoreRequest(open=opened)
    for part in parts:
        yield generation_pb2.ScoreRequest(part=prompt_message(part))


def predict_request(
    sequences: Iterable[Sequence[int]],
    *,
    model: str = "",
    mask: str = "",
    explicit_mask: bytes = b"",
    maps: str = "",
) -> Any:
    """`mask` "none", "causal" or "explicit" (with `explicit_mask`); `maps` "used" or
    "notebook"; empty: the model's own mask, and no maps."""
    kind = generation_pb2.PredictRequest
    return kind(
        model=model_name(model),
        sequences=[generation_pb2.Tokens(ids=ids) for ids in sequences],
        mask=value_of("mask", mask, kind.Mask),
        explicit_mask=explicit_mask,
        maps=value_of("maps", maps, kind.Maps),
    )


def value_of(option: str, name: str, enumeration: Any) -> int:
    """The number of the value `name`, in any case; 0 for an empty one."""
    if not name:
        return 0
    names = enumeration.keys()[1:]
    if name.upper() not in names:
        known = ", ".join(known.lower() for known in names)
        raise ValueError(f"{option} is {name!r}, not one of {known}")
    number: int = enumeration.Value(name.upper())
    return number
