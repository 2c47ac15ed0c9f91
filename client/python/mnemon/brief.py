# SPDX-License-Identifier: MIT
"""Short text of results, for a Python prompt and for notebooks."""

from __future__ import annotations

import array
import dataclasses
import html
from collections.abc import Iterable
from typing import Any

_LONGEST_TEXT = 60  # characters of a text
_LONGEST_LIST = 8  # entries of a list


def shortened(value: object) -> str:
    """repr(), but of long texts, lists and arrays the beginning and the length."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]!r}... ({len(value)} characters)"
    if isinstance(value, array.array):
        return f"<{len(value)} numbers>"
    if isinstance(value, (list, tuple)) and len(value) > _LONGEST_LIST:
        first = ", ".join(shortened(item) for item in value[:3])
        return f"[{first}, ... ({len(value)})]"
    return repr(value)


class Brief:
    """Of dataclasses: a repr of the fields that hold something."""

    def __repr__(self) -> str:
        fields: Any = self
        said = [
            f"{field.name}={shortened(getattr(self, field.name))}"
            for field in dataclasses.fields(fields)
            if _holds_something(getattr(self, field.name))
        ]
        return f"{type(self).__name__}({', '.join(said)})"


def _holds_something(value: object) -> bool:
    if isinstance(value, (str, list, tuple, dict, array.array)):
        return len(value) > 0
    return value is not None and value is not False


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """HTML of facts, one a row; those without a value are left out."""
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(_text(value))}</td></tr>"
        for name, value in rows
        if _holds_something(value)
    )
    return (
        f"<table><caption style='text-align:left'><b>{html.escape(title)}</b></caption>"
        f"{body}</table>"
    )


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and value is not True else str(value)


def preformatted(text: str, note: str) -> str:
    """HTML of a text as it is, with a note under it."""
    return (
        f"<pre style='white-space:pre-wrap'>{html.escape(text)}</pre>"
        f"<small>{html.escape(note)}</small>"
    )
