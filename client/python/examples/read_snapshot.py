#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads a snapshot of a session, checks it, and prints what is in it.

    python3 client/python/examples/read_snapshot.py FILE

Needs the packages xxhash and zstandard. The format: docs/snapshot_format.md.
"""

import hashlib
import json
import math
import struct
import sys

import xxhash
import zstandard


def check(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(f"not a snapshot that can be read: {what}")


def read_snapshot(blob: bytes) -> tuple[dict, bytes, bytes]:
    """Metadata, tokens as int32, state as float32, all little-endian."""
    check(len(blob) >= 48 and blob[:8] == b"MNEMSNAP", "its beginning")
    version, header_bytes, count, zero, size = struct.unpack_from("<IIIIQ", blob, 8)
    check(48 <= header_bytes <= len(blob), "header bytes")
    header, checksum = blob[: header_bytes - 16], blob[header_bytes - 16 : header_bytes]
    check(xxhash.xxh3_128_digest(header) == checksum, "checksum of the header")
    check(version == 1, f"format version {version}")
    check(size == len(blob) and zero == 0 and 32 + 32 * count <= len(header), "sizes")
    metadata = json.loads(header[32 + 32 * count :])
    sections, at = [[], []], header_bytes
    for block in range(count):
        section, codec, stored, length = struct.unpack_from("<4I", header, 32 + 32 * block)
        checksum = header[48 + 32 * block : 64 + 32 * block]
        content, at = blob[at : at + stored], at + stored
        check(xxhash.xxh3_128_digest(content) == checksum, f"checksum of block {block}")
        sections[section].append(zstandard.decompress(content) if codec == 1 else content)
        check(len(sections[section][-1]) == length, f"size of block {block}")
    tokens, state = (b"".join(section) for section in sections)
    for entry in metadata["entries"]:
        entry["held"] = [entry["rows"]] * (entry["growth"] != "fixed") + entry["shape"]
    floats = sum(math.prod(entry["held"]) for entry in metadata["entries"])
    check((at, len(tokens), len(state)) == (size, 4 * metadata["tokens"], 4 * floats), "lengths")
    return metadata, tokens, state


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
with open(sys.argv[1], "rb") as file:
    metadata, tokens, state = read_snapshot(file.read())
for key in ("model_id", "numerics_id", "architecture", "spec_hash", "session"):
    print(f"{key}: {metadata[key]}")
print(f"tokens: {metadata['tokens']}, {metadata['computed']} of them computed")
for entry in metadata["entries"]:
    print(f"{entry['name']}: {entry['growth']} {entry['held']} from row {entry['first_row']}")
print(f"state: {len(state)} bytes, sha256 {hashlib.sha256(state).hexdigest()}")
