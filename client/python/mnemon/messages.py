# SPDX-License-Identifier: MIT
"""Results out of the messages of the API."""

from __future__ import annotations

import array
import datetime
from typing import Any

from mnemon import resources, results
from mnemon.options import Sampling
from mnemon.v1 import generation_pb2, sessions_pb2

_NANOSECONDS = 1e-9


def id_of(name: str) -> str:
    """Of a resource name: "sessions/anna" is anna."""
    return name.rpartition("/")[2]


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _floats(values: Any) -> array.array[float]:
    return array.array("f", values)


def _seconds(duration: Any) -> float:
    return float(duration.ToNanoseconds() * _NANOSECONDS)


def _time(message: Any, field: str) -> datetime.datetime | None:
    if not message.HasField(field):
        return None
    naive: datetime.datetime = getattr(message, field).ToDatetime()
    return naive.replace(tzinfo=datetime.timezone.utc)


def logprobs(messages: Any) -> list[results.TokenLogprobs]:
    return [
        results.TokenLogprobs(
            message.index,
            message.token_id,
            message.logprob,
            [results.Candidate(c.token_id, c.logprob) for c in message.candidates],
        )
        for message in messages
    ]


def introspection(message: Any) -> results.Introspection:
    reads = [
        results.MemoryRead(read.layer, read.head, read.first_index, _floats(read.weights))
        for read in message.memory_reads
    ]
    return results.Introspection(
        index=message.index,
        hidden_state=_floats(message.hidden_state),
        memory_reads=reads,
        update_norms=_floats(message.update_norms),
        # Not every release of the API has it.
        state_norms=_floats(getattr(message, "state_norms", ())),
    )


def prompt_facts(message: Any) -> results.PromptFacts:
    return results.PromptFacts(
        session=id_of(message.session),
        model=id_of(message.model),
        first_index=message.first_index,
        token_count=message.token_count,
        seed=message.seed,
        queue_seconds=_seconds(message.queue_duration),
        logprobs=logprobs(message.logprobs),
    )


def finish_facts(message: Any) -> results.FinishFacts:
    return results.FinishFacts(
        reason=generation_pb2.FinishFacts.FinishReason.Name(message.finish_reason),
        stop_string=message.stop_string,
        stop_token_id=_optional(message, "stop_token_id"),
        eos_token_id=_optional(message, "eos_token_id"),
        generated_token_count=message.generated_token_count,
        token_count=message.token_count,
        prompt_seconds=_seconds(message.prompt_duration),
        generation_seconds=_seconds(message.generation_duration),
    )


def chunk(message: Any) -> results.Chunk:
    prompt, progress = _optional(message, "prompt"), _optional(message, "progress")
    finish = _optional(message, "finish")
    return results.Chunk(
        text=message.text,
        tokens=list(message.tokens),
        first_index=message.first_index,
        logprobs=logprobs(message.logprobs),
        introspection=[introspection(view) for view in message.introspection],
        prompt=prompt and prompt_facts(prompt),
        progress=progress
        and results.Progress(progress.computed_token_count, progress.token_count),
        finish=finish and finish_facts(finish),
    )


def prediction(message: Any) -> results.Prediction:
    def floats(of: Any) -> results.FloatArray:
        return results.FloatArray(tuple(of.shape), _floats(of.values))

    return results.Prediction(floats(message.logits), [floats(m) for m in message.maps])


def model(message: Any) -> resources.Model:
    return resources.Model(
        id=id_of(message.name),
        architecture=message.architecture,
        vocab_size=message.vocab_size,
        context_limit=_optional(message, "context_limit"),
        has_tokenizer=message.has_tokenizer,
        has_chat_template=message.has_chat_template,
        eos_token_id=_optional(message, "eos_token_id"),
        parameter_count=message.parameter_count,
        session_state_size_bytes=message.session_state_size_bytes,
        precision=message.precision,
        kernel_target=message.kernel_target,
        generates=message.generates,
        introspection=tuple(message.introspection.paths),
        model_id=message.model_id,
        numerics_id=message.numerics_id,
        config_json=message.config_json,
    )


def checkpoint(message: Any) -> resources.Checkpoint:
    return resources.Checkpoint(
        id=message.checkpoint_id,
        token_count=message.token_count,
        create_time=_time(message, "create_time"),
        size_bytes=message.size_bytes,
    )


def sampling(message: Any) -> Sampling:
    known = Sampling.__annotations__.keys() - {"logit_bias"}
    fields: Any = {
        field.name: value for field, value in message.ListFields() if field.name in known
    }
    if message.logit_bias:
        fields["logit_bias"] = {entry.token_id: entry.bias for entry in message.logit_bias}
    chosen: Sampling = fields
    return chosen


def session_info(message: Any) -> resources.SessionInfo:
    kind = sessions_pb2.Session
    return resources.SessionInfo(
        id=id_of(message.name),
        model=id_of(message.model),
        state=kind.State.Name(message.state),
        token_count=message.token_count,
        state_size_bytes=message.state_size_bytes,
        create_time=_time(message, "create_time"),
        last_use_time=_time(message, "last_use_time"),
        expire_time=_time(message, "expire_time"),
        etag=message.etag,
        parent=id_of(message.parent),
        rebuilt=message.rebuilt,
        durability=kind.Durability.Name(message.durability),
        sampling=sampling(message.sampling),
        paused=message.paused,
        tier=kind.Tier.Name(message.tier),
        model_id=message.model_id,
        numerics_id=message.numerics_id,
        checkpoints=[checkpoint(c) for c in message.checkpoints],
    )


def history(message: Any) -> resources.History:
    return resources.History(
        first_index=message.first_index,
        tokens=list(message.tokens),
        text=message.text,
        byte_offsets=list(message.byte_offsets),
        token_count=message.token_count,
    )


def verification(message: Any) -> resources.Verification:
    return resources.Verification(
        stored_form_valid=message.stored_form_valid,
        replay_equal=_optional(message, "replay_equal"),
        token_count=message.token_count,
        state_size_bytes=message.state_size_bytes,
        first_difference=message.first_difference,
    )
