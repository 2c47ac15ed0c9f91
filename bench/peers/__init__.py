# SPDX-License-Identifier: MIT
"""Other programs that run the same models as mnemon, one module each.

A peer is an object with
  name                 what the table calls it
  logits(tokens)       of the last token after these, from a fresh start: numpy, [V]
  round(seconds)       steps at the context for about so long: list of seconds per token
and, where its function is not quite mnemon's,
  tolerance            of its logits, relative to the largest
  same_as(...)         a peer whose logits it must give instead of mnemon's
Its constructor raises Missing with the reason when it cannot run here.
"""


class Missing(Exception):
    """Why a peer is not in the table."""
