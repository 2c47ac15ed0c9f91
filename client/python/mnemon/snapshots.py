# SPDX-License-Identifier: MIT
"""Snapshots of sessions, from and to files."""

from __future__ import annotations

import contextlib
import os
import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any, BinaryIO, Union

import grpc

from mnemon.errors import DataLoss
from mnemon.v1 import sessions_pb2

_IMPORT_CHUNK = 1 << 18  # bytes

Snapshot = Union[str, "os.PathLike[str]", BinaryIO]
"""A path, or a file opened in binary mode."""


class SnapshotReader:
    """The messages of an import, out of `file`, once for each try; more than once only
    where `file` can seek."""

    def __init__(self, first: Any, file: BinaryIO) -> None:
        self._first = first
        self._file = file
        self.repeats = file.seekable()
        self._begin = file.tell() if self.repeats else 0
        # gRPC may still read on behalf of a try that has ended.
        self._lock = threading.Lock()
        self._try = 0

    def messages(self) -> Iterator[Any]:
        with self._lock:
            self._try += 1
            if self.repeats:
                self._file.seek(self._begin)
            return self._messages(self._try)

    def _messages(self, mine: int) -> Iterator[Any]:
        yield self._first
        while True:
            with self._lock:
                chunk = self._file.read(_IMPORT_CHUNK) if mine == self._try else b""
            if not chunk:
                return
            yield sessions_pb2.ImportSessionRequest(chunk=chunk)


@contextlib.contextmanager
def opened_snapshot(source: Snapshot) -> Iterator[BinaryIO]:
    """`source` for reading."""
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            yield file
    else:
        yield source


@contextlib.contextmanager
def new_snapshot(target: Snapshot) -> Iterator[BinaryIO]:
    """`target` for writing. A path holds the whole snapshot or what it held before."""
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    part = pathlib.Path(f"{os.fspath(target)}.{uuid.uuid4()}.part")
    try:
        with open(part, "xb") as file:
            yield file
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def bytes_left(file: BinaryIO) -> int:
    """From the place of `file`, which must be one that can seek, to its end."""
    begin = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(begin)
    return end - begin


class SnapshotWriter:
    """Writes a snapshot that comes to `file` and counts it against what its first message
    announces."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._first: Any = None
        self._received = 0

    def take(self, message: Any) -> None:
        if self._first is None:
            self._first = message
        self._received += len(message.chunk)
        self._file.write(message.chunk)

    def finish(self) -> Any:
        """The session's message."""
        announced = self._first.size_bytes if self._first else 0
        if self._first is None or self._received != announced:
            raise DataLoss(
                grpc.StatusCode.DATA_LOSS,
                f"the server announced {announced} bytes and sent {self._received}",
                [],
            )
        return self._first.session
