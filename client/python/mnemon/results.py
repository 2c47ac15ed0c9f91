# SPDX-License-Identifier: MIT
"""What calls of Generation answer. Indices are absolute in the session, the prompt
included; log-probabilities are natural logarithms of the model's unmodified
distribution."""

from __future__ import annotations

import array
import dataclasses
import math

from mnemon.brief import Brief, preformatted


@dataclasses.dataclass(frozen=True)
class Candidate:
    token_id: int
    logprob: float


@dataclasses.dataclass(frozen=True, repr=False)
class TokenLogprobs(Brief):
    """How likely one token was."""

    index: int
    token_id: int
    logprob: float
    candidates: list[Candidate]  # the most likely ones first, then those of candidate_ids


@dataclasses.dataclass(frozen=True, repr=False)
class MemoryRead(Brief):
    """What one head of a step read of the positions that it saw."""

    layer: int
    head: int
    first_index: int  # of the position that weights[0] belongs to
    weights: array.array[float]  # sum to 1


@dataclasses.dataclass(frozen=True, repr=False)
class Introspection(Brief):
    """How the model came to the generated token at `index`: the step of the token before
    it. What was not asked for is empty. Arrays go to numpy.asarray() as they are."""

    index: int
    hidden_state: array.array[float]  # [D], what the head multiplies
    memory_reads: list[MemoryRead]  # per layer and head
    update_norms: array.array[float]  # of the change of fast weights, [L, H]
    state_norms: array.array[float]  # of fast weights after the step, [L, H]


@dataclasses.dataclass(frozen=True, repr=False)
class PromptFacts(Brief):
    """Known when the server has taken the call."""

    session: str  # "" without one
    model: str
    first_index: int  # of the first token of the prompt
    token_count: int  # of the prompt
    seed: int  # the same call with it gives the same tokens
    queue_seconds: float
    logprobs: list[TokenLogprobs]  # of the prompt, from its second token on


@dataclasses.dataclass(frozen=True, repr=False)
class Progress(Brief):
    """Of a long prompt."""

    computed_token_count: int
    token_count: int


@dataclasses.dataclass(frozen=True, repr=False)
class FinishFacts(Brief):
    """Known at the end."""

    reason: str  # "MAX_TOKENS", "STOP", "CONTEXT_LIMIT", "TIME_LIMIT", ...
    stop_string: str  # the one that ended it
    stop_token_id: int | None  # likewise
    eos_token_id: int | None  # likewise: the model's own end token
    generated_token_count: int
    token_count: int  # in the session's history now
    prompt_seconds: float  # from admission to the last token of the prompt
    generation_seconds: float  # from then to the end


@dataclasses.dataclass(frozen=True, repr=False)
class Chunk(Brief):
    """One message of a stream."""

    text: str  # complete characters
    tokens: list[int]
    first_index: int  # of tokens[0]
    logprobs: list[TokenLogprobs]  # one per token, where asked for
    introspection: list[Introspection]  # likewise
    prompt: PromptFacts | None  # in the first message
    progress: Progress | None  # a sign of life during a long prompt
    finish: FinishFacts | None  # in the last message


@dataclasses.dataclass(frozen=True, repr=False)
class GenerateResult(Brief):
    """A stream that has ended, as a whole."""

    text: str
    tokens: list[int]
    logprobs: list[TokenLogprobs]
    prompt: PromptFacts
    finish: FinishFacts
    resumes: int  # times that the stream was lost and taken up again

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return preformatted(self.text, self._note())

    def _note(self) -> str:
        finish = self.finish
        note = f"{finish.generated_token_count:,} tokens, {finish.reason}"
        if finish.generation_seconds > 0:
            speed = finish.generated_token_count / finish.generation_seconds
            note += f", {speed:,.0f} tokens/s"
        return f"{note}, seed {self.prompt.seed}, model {self.prompt.model}"


@dataclasses.dataclass(frozen=True, repr=False)
class ScoreResult(Brief):
    """A text that was scored, as a whole."""

    logprobs: list[TokenLogprobs]
    token_count: int  # that were scored
    logprob_sum: float

    @property
    def perplexity(self) -> float:
        """Of the scored tokens; NaN where there is none."""
        if not self.token_count:
            return math.nan
        return math.exp(-self.logprob_sum / self.token_count)

    def _repr_html_(self) -> str:
        text = f"{self.token_count:,} tokens, log-probability {self.logprob_sum:.3f}"
        return preformatted(text, f"perplexity {self.perplexity:.3f}")


@dataclasses.dataclass(frozen=True)
class FloatArray:
    """numpy.asarray(values).reshape(shape) is the array."""

    shape: tuple[int, ...]
    values: array.array[float]  # row-major

    def __repr__(self) -> str:
        return f"FloatArray(shape={self.shape})"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One pass of an encoder over B sequences of one length T."""

    logits: FloatArray  # [B, T, V]
    maps: list[FloatArray]  # per layer [B, H, T, T], where asked for
