#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Generates the Python modules of the API: mnemon/v1/*_pb2.py and *_pb2_grpc.py.

    client/python/generate_stubs.py               into client/python/mnemon, for use in place
    client/python/generate_stubs.py --out DIR     into DIR/mnemon, where the package is copied too

Uses protoc and grpc_python_plugin of the Debian packages protobuf-compiler and
protobuf-compiler-grpc, or the PyPI package grpcio-tools where those are absent.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
SERVICES = ["generation", "models", "sessions", "admin"]


def compiler() -> list[str]:
    """The command line of protoc up to its arguments, with the gRPC plugin."""
    protoc, plugin = shutil.which("protoc"), shutil.which("grpc_python_plugin")
    if protoc and plugin:
        return [protoc, f"--plugin=protoc-gen-grpc_python={plugin}"]
    try:
        import grpc_tools  # noqa: F401
    except ImportError:
        sys.exit(
            "generate_stubs.py: needs the Debian packages protobuf-compiler and "
            "protobuf-compiler-grpc, or grpcio-tools from PyPI"
        )
    return [sys.executable, "-m", "grpc_tools.protoc"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if out != HERE:
        shutil.copytree(HERE / "mnemon", out / "mnemon", dirs_exist_ok=True)

    protoc = compiler()
    messages = [f"mnemon/v1/{name}.proto" for name in [*SERVICES, "sampling"]]
    health = "grpc/health/v1/health.proto"
    details = "google/rpc/error_details.proto"
    subprocess.run([*protoc, f"-I{PROTO}", f"--python_out={out}", *messages], check=True)
    subprocess.run(
        [*protoc, f"-I{PROTO}", f"--grpc_python_out={out}"]
        + [f"mnemon/v1/{name}.proto" for name in SERVICES],
        check=True,
    )
    (out / "mnemon/v1/__init__.py").write_text("# SPDX-License-Identifier: MIT\n")
    # Descriptors for a pool of the package's own: as modules, google.rpc and grpc.health
    # would collide with the PyPI packages of those names.
    subprocess.run(
        [*protoc, f"-I{PROTO}", "--include_imports"]
        + [f"--descriptor_set_out={out / 'mnemon/v1/standard.binpb'}"]
        + ["google/rpc/status.proto", details, health],
        check=True,
    )


if __name__ == "__main__":
    main()
