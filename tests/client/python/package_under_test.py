# SPDX-License-Identifier: MIT
"""Makes `import mnemon` find the package under test."""

import importlib.util
import os
import subprocess
import sys

SKIPPED = 77


def find(repository: str, package: str) -> dict:
    """`package` is the folder that it is made in, or `installed` to take it from where this
    Python finds it. Returns the environment of programs that use it. Ends this program,
    as skipped, where grpc is missing."""
    if importlib.util.find_spec("grpc") is None:
        print("SKIPPED: this Python has no grpc; install the package python3-grpcio")
        sys.exit(SKIPPED)
    environment = dict(os.environ)
    if package != "installed":
        subprocess.run(
            [sys.executable, f"{repository}/client/python/generate_descriptors.py"]
            + ["--out", package],
            check=True,
            timeout=600,
        )
        sys.path.insert(0, package)
        environment["PYTHONPATH"] = package
    return environment
