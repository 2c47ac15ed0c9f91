#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The package as PyPI would have it: a source distribution by `python -m build`, a wheel of
it by `pip wheel`, that one installed in a clean virtual environment with the newest
protobuf and grpcio of PyPI, and all tests of the client with what was installed.

    pip_install_test.py REPOSITORY mnemon-train mnemon-server

Skipped where PyPI, or the mirror that pip is configured for, does not answer in time.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

REPOSITORY, TRAIN, SERVER = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
# Only what hangs comes to it; pip itself gives an index up that is silent.
HANGS_SECONDS = 600
SKIPPED = 77

# The release of the client is that of the project.
CMAKE = (REPOSITORY / "CMakeLists.txt").read_text()
VERSION = re.search(r"project\(mnemon VERSION ([0-9.]+)", CMAKE)[1]
WHEEL = f"mnemon_client-{VERSION}-py3-none-any.whl"


API = [path.relative_to(REPOSITORY / "proto") for path in REPOSITORY.glob("proto/**/*.proto")]


def run(command, seconds, **options):
    """The ended process; its code is not 0 when it did not end in time."""
    try:
        return subprocess.run(
            command, timeout=seconds, text=True, stdin=subprocess.DEVNULL, **options
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"not done in {seconds} s")


def faults_of_wheel(path) -> str:
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(f"mnemon_client-{VERSION}.dist-info/METADATA").decode()
    for name in ("mnemon/py.typed", "mnemon/v1/api.binpb", "mnemon/aio/client.py"):
        if name not in names:
            return f"the wheel has no {name}"
    for line in (f"Version: {VERSION}", "License: MIT", "Requires-Dist: grpcio>=1.51"):
        if line not in metadata.splitlines():
            return f"the metadata has no line {line}:\n{metadata}"
    return ""


def main(root: pathlib.Path) -> int:
    # Nothing of Debian, of this checkout or of the user's own is visible.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PYTHONNOUSERSITE"] = "1"
    quiet = {"env": environment, "cwd": root, "stdout": subprocess.PIPE}
    quiet["stderr"] = subprocess.STDOUT
    # Beside what pip unpacks lies a folder that is not ours, where a checkout has the API.
    environment["TMPDIR"] = str(root / "tmp")
    for name in API:
        stray = root / "tmp/proto" / name
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_text("not ours\n")
    made = run([sys.executable, "-m", "venv", root / "venv"], HANGS_SECONDS, **quiet)
    if made.returncode != 0:
        print("SKIPPED: no virtual environments; install the package python3-venv")
        return SKIPPED
    python = root / "venv/bin/python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]

    needed = ["setuptools>=66", "grpcio-tools", "build", "grpcio", "protobuf"]
    loaded = run(
        [*pip, "download", "--quiet", "--timeout=5", "--retries=1", "--only-binary=:all:"]
        + ["--dest", root / "wheels", *needed],
        HANGS_SECONDS,
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
    # From here on pip sees what was downloaded alone.
    environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{root}/wheels {root}/dist"}
    builder = {**environment, "PYTHONPATH": str(root / "builder")}
    source, dist = root / "checkout/client/python", root / "dist"
    for command, variables in (
        ([*pip, "install", "--target", root / "builder", *needed[:3]], environment),
        ([python, "-m", "build", "--sdist", "--no-isolation", "-o", dist, source], builder),
        (["rm", "-r", root / "checkout"], environment),
        ([*pip, "wheel", "--no-deps", "--wheel-dir", dist, "mnemon-client"], environment),
        ([*pip, "install", dist / WHEEL], environment),
    ):
        made = run(command, HANGS_SECONDS, **{**quiet, "env": variables})
        if made.returncode != 0:
            print(made.stdout, made.stderr)
            return 1
    faults = faults_of_wheel(dist / WHEEL)
    if faults:
        print(faults)
        return 1
    print(run([*pip, "list", "--format=freeze"], HANGS_SECONDS, **quiet).stdout)

    tests = REPOSITORY / "tests/client/python"
    commands = (
        [tests / "python_client_test.py", REPOSITORY, TRAIN, SERVER, "installed"],
        [tests / "python_display_test.py", REPOSITORY, "installed"],
        [tests / "python_resume_test.py", REPOSITORY, "installed"],
        [tests / "python_sessions_test.py", REPOSITORY, "installed"],
    )

    def test(command):
        return run([python, "-B", *command], HANGS_SECONDS, **quiet)

    # They wait for most of their time.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        tested = list(pool.map(test, commands))
    for ended in tested:
        print(ended.stdout, ended.stderr or "")
    return 0 if all(ended.returncode == 0 for ended in tested) else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mnemon-pip.") as temporary:
        sys.exit(main(pathlib.Path(temporary)))
