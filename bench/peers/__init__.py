# SPDX-License-Identifier: MIT
"""Other programs that run the same models as mnemon, one module each.

A module has make(checkpoint, prompt, threads), which raises Missing with the reason when
the program cannot run this model here. It gives a peer, an object with
  name                 what the table calls it
  threads              that it computes with
  logits(tokens)       of the last token after these, from a fresh start: numpy, [V]
  round(seconds)       steps after the prompt for about so long: seconds per token, a list
and, where its function is not quite mnemon's,
  tolerance            of its logits, relative to the largest
  same_as(...)         a peer whose logits it must give instead of mnemon's
"""

import time


class Missing(Exception):
    """Why a peer is not in the table."""


def repeat(seconds, step):
    """Seconds that each call of `step` took, one call at least."""
    samples = []
    start = time.perf_counter()
    while not samples or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        step()
        samples.append(time.perf_counter() - begin)
    return samples
