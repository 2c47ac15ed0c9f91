#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`pip install ./client/python` in a clean virtual environment, with the newest protobuf
and grpcio of PyPI, and all tests of the client with what was installed.

    pip_install_test.py REPOSITORY mnemon-train mnemon-server

Skipped where PyPI, or the mirror that pip is configured for, does not answer in time.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

REPOSITORY, TRAIN, SERVER = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
DOWNLOAD_SECONDS = 50
INSTALL_SECONDS = 50
TEST_SECONDS = 60
SKIPPED = 77


def run(command, seconds, **options):
    """The ended process; its code is not 0 when it did not end in time."""
    try:
        return subprocess.run(
            command, timeout=seconds, text=True, stdin=subprocess.DEVNULL, **options
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"not done in {seconds} s")


def main(root: pathlib.Path) -> int:
    # Nothing of Debian, of this checkout or of the user's own is visible.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PYTHONNOUSERSITE"] = "1"
    quiet = {"env": environment, "cwd": root, "stdout": subprocess.PIPE}
    quiet["stderr"] = subprocess.STDOUT
    made = run([sys.executable, "-m", "venv", root / "venv"], INSTALL_SECONDS, **quiet)
    if made.returncode != 0:
        print("SKIPPED: no virtual environments; install the package python3-venv")
        return SKIPPED
    python = root / "venv/bin/python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]

    needed = ["setuptools>=66", "grpcio-tools", "grpcio", "protobuf"]
    loaded = run(
        [*pip, "download", "--quiet", "--timeout=5", "--retries=1", "--only-binary=:all:"]
        + ["--dest", root / "wheels", *needed],
        DOWNLOAD_SECONDS,
        **quiet,
    )
    if loaded.returncode != 0:
        print("SKIPPED: PyPI does not answer, or too slowly")
        return SKIPPED

    # As a fresh checkout has them.
    for folder in ("client/python", "proto"):
        shutil.copytree(
            REPOSITORY / folder,
            root / "checkout" / folder,
            ignore=shutil.ignore_patterns("*.binpb", "*.egg-info", "__pycache__", "build"),
        )
    installed = run(
        [*pip, "install", "--no-index", "--find-links", root / "wheels"]
        + [root / "checkout/client/python"],
        INSTALL_SECONDS,
        **quiet,
    )
    if installed.returncode != 0:
        print(installed.stdout, installed.stderr)
        return 1
    shutil.rmtree(root / "checkout")
    print(run([*pip, "list", "--format=freeze"], INSTALL_SECONDS, **quiet).stdout)

    tests = REPOSITORY / "tests/client/python"
    for command in (
        [tests / "python_sessions_test.py", REPOSITORY, "installed"],
        [tests / "python_resume_test.py", REPOSITORY, "installed"],
        [tests / "python_client_test.py", REPOSITORY, TRAIN, SERVER, "installed"],
    ):
        tested = run(
            [python, "-B", *command], TEST_SECONDS, env=environment, cwd=root
        ).returncode
        if tested != 0:
            return tested
    return 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mnemon-pip.") as temporary:
        sys.exit(main(pathlib.Path(temporary)))
