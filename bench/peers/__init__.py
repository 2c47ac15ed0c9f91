# SPDX-License-Identifier: MIT
"""Other programs that run the same models as mnemon, one module each.

A module has make(task, threads), which raises Missing with the reason when the program
cannot run this model here. It gives a peer, an object with
  name                 what the table calls it
  threads              that it computes with
  logits(tokens)       of the last token after these, from a fresh start: numpy, [V]
  round(seconds)       steps after the prompt for about so long: seconds per step, which is a
                       token for each session, a list
where its function is not quite mnemon's,
  tolerance            of its logits, relative to the largest
  same_as(task)        a peer whose logits it must give instead of mnemon's
and, where a step of several sessions shows its logits,
  batch_logits()       of each session after the prompt and its first token again: [B, V]
"""

import dataclasses
import time


class Missing(Exception):
    """Why a peer is not in the table."""


@dataclasses.dataclass(frozen=True)
class Task:
    """What a program does in one comparison."""

    checkpoint: object
    prompt: list  # of every session
    batch: int = 1  # B: sessions in one step
    precision: str = "fp32"  # of mnemon's stored weights
    format: str = "fp32"  # of the peer's stored matrices, as the peer names it

    def require_one_session(self):
        if self.batch > 1:
            raise Missing("batch 1 only")


def repeat(seconds, step, undo=lambda: None):
    """Seconds that each call of `step` took, one call at least; `undo` follows each."""
    samples = []
    start = time.perf_counter()
    while not samples or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        step()
        samples.append(time.perf_counter() - begin)
        undo()
    return samples
