#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the descriptors of the API, mnemon/v1/api.binpb, which the client reads.

    client/python/generate_descriptors.py               into client/python/mnemon, for use in place
    client/python/generate_descriptors.py --out DIR     into DIR/mnemon, where the package is copied too

pip runs it too. Uses protoc of the PyPI package grpcio-tools, or of the Debian package
protobuf-compiler; the release does not matter.
"""

import argparse
import importlib.util
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
FILES = [
    "mnemon/v1/generation.proto",
    "mnemon/v1/models.proto",
    "mnemon/v1/sessions.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
    "grpc/health/v1/health.proto",
]


def compiler() -> list[str]:
    """The command line of protoc up to its arguments."""
    if importlib.util.find_spec("grpc_tools"):
        return [sys.executable, "-m", "grpc_tools.protoc"]
    protoc = shutil.which("protoc")
    if not protoc:
        sys.exit(
            "generate_descriptors.py: needs grpcio-tools from PyPI or the Debian package "
            "protobuf-compiler"
        )
    return [protoc]


def generate(package: pathlib.Path) -> None:
    """Writes the file into `package`, the folder mnemon."""
    missing = [str(PROTO / name) for name in FILES if not (PROTO / name).is_file()]
    if missing:
        sys.exit(
            "generate_descriptors.py: needs a whole checkout of mnemon; missing: "
            + ", ".join(missing)
        )
    subprocess.run(
        [*compiler(), f"-I{PROTO}", "--include_imports"]
        + [f"--descriptor_set_out={package / 'v1/api.binpb'}", *FILES],
        check=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    out = parser.parse_args().out.resolve()
    if out != HERE:
        shutil.copytree(HERE / "mnemon", out / "mnemon", dirs_exist_ok=True)
    generate(out / "mnemon")


if __name__ == "__main__":
    main()
