# SPDX-License-Identifier: MIT
"""What has come of a stream, for both clients."""

from __future__ import annotations

import grpc

from mnemon.brief import preformatted, shortened
from mnemon.errors import DataLoss
from mnemon.results import (
    Chunk,
    FinishFacts,
    GenerateResult,
    PromptFacts,
    ScoreResult,
    TokenLogprobs,
)


class Received:
    """Of generate(). Introspection is large: it is on the chunks alone."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprobs] = []
        self._prompt: PromptFacts | None = None
        self._finish: FinishFacts | None = None

    @property
    def prompt(self) -> PromptFacts | None:
        """None before the first chunk."""
        return self._prompt

    @property
    def finish(self) -> FinishFacts | None:
        """None before the last chunk."""
        return self._finish

    def _take(self, chunk: Chunk) -> None:
        if chunk.text:
            self._pieces.append(chunk.text)
        self._tokens.extend(chunk.tokens)
        self._logprobs.extend(chunk.logprobs)
        self._prompt = chunk.prompt or self._prompt
        self._finish = chunk.finish or self._finish

    def _text_so_far(self) -> str:
        return "".join(self._pieces)

    def _whole(self, resumes: int) -> GenerateResult:
        if self._prompt is None or self._finish is None:
            raise DataLoss(
                grpc.StatusCode.DATA_LOSS, "the stream ended without its last message", []
            )
        return GenerateResult(
            text=self._text_so_far(),
            tokens=self._tokens,
            logprobs=self._logprobs,
            prompt=self._prompt,
            finish=self._finish,
            resumes=resumes,
        )

    def _state(self) -> str:
        if self._finish is not None:
            return f"ended, {self._finish.reason}"
        return "running" if self._prompt is not None else "not begun"

    def __repr__(self) -> str:
        text = shortened(self._text_so_far())
        return f"<Generation {text}, {len(self._tokens)} tokens, {self._state()}>"

    def _repr_html_(self) -> str:
        note = f"{len(self._tokens):,} tokens, {self._state()}"
        return preformatted(self._text_so_far(), note)


class Scored:
    """Of score()."""

    def __init__(self) -> None:
        self._logprobs: list[TokenLogprobs] = []
        self._ended: ScoreResult | None = None

    def _take(self, logprobs: list[TokenLogprobs]) -> None:
        self._logprobs.extend(logprobs)

    def _end(self, token_count: int, logprob_sum: float) -> None:
        self._ended = ScoreResult(self._logprobs, token_count, logprob_sum)

    def _whole(self) -> ScoreResult:
        if self._ended is None:
            raise DataLoss(
                grpc.StatusCode.DATA_LOSS, "the stream ended without its last message", []
            )
        return self._ended

    def __repr__(self) -> str:
        state = "running" if self._ended is None else "ended"
        return f"<Scoring {len(self._logprobs)} tokens, {state}>"
