# SPDX-License-Identifier: MIT
"""A line that shows how far a call is: in a terminal and in a notebook, nowhere else."""

from __future__ import annotations

import html
import shutil
import sys
import threading
import time
from typing import Any, Protocol

from mnemon.results import Chunk

_INTERVAL = 0.1  # seconds between two looks of the line
_BAR = 20  # characters


class Line(Protocol):
    """Where the text goes; `share` is None or from 0 to 1."""

    def show(self, text: str, share: float | None) -> None: ...

    def clear(self) -> None: ...


class TerminalLine:
    """One line of standard error, written over."""

    def show(self, text: str, share: float | None) -> None:
        if share is not None:
            full = round(share * _BAR)
            text = f"[{'#' * full}{'.' * (_BAR - full)}] {text}"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{text[:width]}")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class NotebookLine:
    """One output of a notebook's cell, written over."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, share: float | None) -> None:
        bar = "" if share is None else f"<progress value='{share:.4f}' max='1'></progress> "
        self._put(f"{bar}<small>{html.escape(text)}</small>")

    def clear(self) -> None:
        self._put("")

    def _put(self, content: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(content), display_id=True)
        else:
            self._handle.update(HTML(content))


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def line_here() -> Line | None:
    """The one that this program can show."""
    if _in_notebook():
        return NotebookLine()
    return TerminalLine() if sys.stdout.isatty() and sys.stderr.isatty() else None


class ProgressDisplay:
    """Of one call that generates at most `most` tokens. The text of a caller who reads
    chunk by chunk is not disturbed: he sees the prompt's progress alone. Until something
    comes a thread shows the time that passes."""

    def __init__(self, line: Line | None, most: int | None, tick: float = 1.0) -> None:
        """`tick`: seconds from one look to the next while nothing comes."""
        self._most = most
        self._tick = tick
        self._begun = time.monotonic()
        self._count = 0
        self._first: float | None = None  # time of the first token
        self._shown: float | None = None  # time of the last look
        self._came = threading.Event()
        self._lock = threading.Lock()
        self._line = line  # guarded by _lock

    def begin(self) -> None:
        if self._line is None:
            return
        self._show("waiting for the first token", None)
        threading.Thread(target=self._wait, daemon=True).start()

    def see(self, chunk: Chunk, whole: bool) -> None:
        """`whole`: the caller waits for all of it."""
        if self._line is None:
            return
        if chunk.progress is not None and chunk.progress.token_count > 0:
            done, of = chunk.progress.computed_token_count, chunk.progress.token_count
            self._came.set()
            self._show(f"prompt: {done:,} of {of:,} tokens", done / of)
        elif chunk.tokens and not whole:
            self.end()
        elif chunk.tokens:
            self._came.set()
            self._generated(len(chunk.tokens))

    def end(self) -> None:
        self._came.set()
        with self._lock:
            if self._line is not None and self._shown is not None:
                self._line.clear()
            self._line = None

    def _wait(self) -> None:
        while not self._came.wait(self._tick):
            passed = time.monotonic() - self._begun
            self._show(f"waiting for the first token: {passed:.0f} s", None)

    def _generated(self, count: int) -> None:
        now = time.monotonic()
        self._count += count
        if self._first is None:
            self._first = now
        text = f"{self._count:,} tokens"
        if self._most:
            text = f"{self._count:,} of at most {self._most:,} tokens"
        if now - self._first > 1:
            text += f", {self._count / (now - self._first):,.0f} tokens/s"
        share = min(self._count / self._most, 1.0) if self._most else None
        self._show(text, share)

    def _show(self, text: str, share: float | None) -> None:
        now = time.monotonic()
        with self._lock:
            late = self._shown is None or now >= self._shown + _INTERVAL
            if self._line is not None and late:
                self._shown = now
                self._line.show(text, share)


def display(wanted: bool, most: int | None) -> ProgressDisplay:
    shown = ProgressDisplay(line_here() if wanted else None, most)
    shown.begin()
    return shown
