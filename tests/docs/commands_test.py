#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands of README.md and docs/tutorial.md word by word, in their short form:
a training takes two seconds, servers take free ports.

    commands_test.py REPOSITORY BINARIES

Left out: scripts/demo and scripts/test, which run by themselves, what needs a GPU, pip's
installation of the client, which pip_install_test makes, and the import of a checkpoint of
labml, which train_convert_labml_test makes.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

REPOSITORY, BINARIES = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
PAGE_SECONDS = 1500  # only a page that hangs takes so long
ENGLISH = (
    "It is said that the quick brown fox jumps over the lazy dog. But then it rests, And so on.\n"
    "What is the capital of France? Which river is it?\n"
)

# Replacements of the programs: what is different here, and what a person would wait for. On a
# machine that does other things mnemon loadtest may be late, which voids its figures.
WRAPPERS = {
    "mnemon-train": """
if [[ $1 == fit && " $* " != *" --print-config "* ]]; then
  exec BINARIES/mnemon-train "$@" --set train.seconds=2 --set train.steps=40
fi
exec BINARIES/mnemon-train "$@"
""",
    "mnemon-server": 'rm -f "$TICK"\nexec BINARIES/mnemon-server "$@" --port-file "$TICK"\n',
    "mnemon": """AWAIT
[[ $1 == loadtest ]] && set -- "${@/#30/2}" --max-lateness 1000s
exec BINARIES/mnemon "$@"
""",
    "curl": 'AWAIT\nexec /usr/bin/curl -sS --fail-with-body "${@//127.0.0.1:8000/$HTTP}"\n',
    "python": 'AWAIT\nexec "$PYTHON" "$@"\n',
}
AWAIT = 'for _ in {1..6000}; do [[ -s $TICK ]] && break; sleep 0.1; done'


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of the blocks that are run, in their order."""
    found = re.findall(r"```(\w*)\n(.*?)```", page, re.S)
    return [(language, text) for language, text in found if language in ("", "python")]


def is_command(line: str) -> bool:
    words = line.split()
    known = ("mnemon", "mnemon-train", "mnemon-server", "curl", "kill", "wait", "pip")
    return bool(words) and (
        words[0] in known or words[0].startswith(("python3", "venv/", "scripts/"))
    )


def is_left_out(line: str) -> bool:
    left_out = ("scripts/demo", "scripts/test", "cuda", "pip install", "-m venv", "labml", "imported")
    return any(word in line for word in left_out)


def joined(text: str) -> list[str]:
    """Lines, joined at backslashes."""
    return text.replace("\\\n", " ").splitlines()


def script(page: str) -> tuple[str, int]:
    """The page as a bash script, and the number of its commands."""
    out = ["set -exo pipefail", "set -m"]
    late = []  # what stands before the first server
    count = 0
    for language, text in blocks(page):
        if language == "python":
            if "openai" in text:
                continue  # run by openai_test
            served = any("mnemon-server" in line for line in out)
            (out if served else late).extend(["python - <<'PYTHON'", text.rstrip(), "PYTHON"])
            count += 1
            continue
        lines = joined(text)
        # What a command prints is no block of commands.
        if not lines or not all(is_command(line) for line in lines if line.strip()):
            continue
        for line in lines:
            if not line.strip() or is_left_out(line):
                continue
            count += 1
            command = line.split("  #")[0].rstrip()  # `&` stands before a comment
            if command.startswith("mnemon-server") and not command.endswith("&"):
                # In order: each ends when the next one begins.
                out.append("end_server")
                if "--check" in command.split():
                    out.append(command)  # of a directory that no server has
                else:
                    server = command
                out += [f"{server} &", "server=$!", "await_server"]
            else:
                out.append(command)
                if command.startswith("kill"):
                    out.append('rm -f "$TICK"')
    if late:
        out += ["end_server", "mnemon-server --checkpoint run/best &", "server=$!", *late]
    return "\n".join(out), count


PRELUDE = f"""
server=
await_server() {{ {AWAIT}; [[ -s $TICK ]]; }}
end_server() {{
  if [[ -n $server ]]; then kill "$server"; wait "$server"; server=; rm -f "$TICK"; fi
}}
"""


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to whoever names none: nobody else is given them."""
    free = []
    for port in random.sample(range(20000, 32000), 100):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            free.append(port)
        if len(free) == count:
            return free
    raise OSError("no two free ports between 20000 and 32000")


class Pages(unittest.TestCase):
    def run_page(self, name: str, least: int):
        text, count = script((REPOSITORY / name).read_text())
        self.assertGreaterEqual(count, least)
        with tempfile.TemporaryDirectory(prefix="mnemon-page.") as folder:
            root = pathlib.Path(folder)
            self.prepare(root)
            grpc, http = (f"127.0.0.1:{port}" for port in free_ports(2))
            environment = {
                **os.environ,
                "PATH": f"{root}/bin:{os.environ['PATH']}",
                "REPO": str(REPOSITORY),
                "TICK": f"{root}/port",
                "PYTHON": sys.executable,
                "PYTHONPATH": f"{root}/package",
                "HTTP": http,
                "MNEMON_SERVER": grpc,
                "MNEMON_SERVER_LISTEN": grpc,
                "MNEMON_SERVER_HTTP": http,
                "MNEMON_SERVER_GRACE": "2",
                "XDG_STATE_HOME": f"{root}/state",
            }
            work = root / "work"
            log = (root / "log").open("w")
            process = subprocess.Popen(
                ["bash", "-c", PRELUDE + text + "\nend_server\n"],
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                ended = process.wait(timeout=PAGE_SECONDS)
            except subprocess.TimeoutExpired:
                ended = f"not done in {PAGE_SECONDS} s"
            finally:
                self.end_session(process)
                log.close()
            self.assertEqual(ended, 0, (root / "log").read_text(errors="replace")[-4000:])

    def prepare(self, root: pathlib.Path):
        (root / "bin").mkdir()
        (root / "work").mkdir()
        for name, body in WRAPPERS.items():
            path = root / "bin" / name
            body = body.replace("BINARIES", str(BINARIES)).replace("AWAIT", AWAIT)
            path.write_text(f"#!/bin/bash\n{body}")
            path.chmod(0o755)
        for name in ("book.txt", "other.txt"):
            (root / "work" / name).write_text(ENGLISH * 2000)
        (root / "work" / "page.txt").write_text(ENGLISH)
        (root / "work" / "run2").symlink_to("run")
        # Paths of the repository, as its pages name them.
        for name in ("train", "client", "scripts"):
            (root / "work" / name).symlink_to(REPOSITORY / name)
        generate = REPOSITORY / "client/python/generate_descriptors.py"
        subprocess.run(
            [sys.executable, "-B", generate, "--out", root / "package"], check=True, timeout=600
        )

    @staticmethod
    def end_session(process: subprocess.Popen):
        """Job control gives every server a group of its own: each is ended."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--sid", str(process.pid)], capture_output=True, text=True
        )
        for pid in listed.stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()

    def test_tutorial(self):
        self.run_page("docs/tutorial.md", 17)

    def test_readme(self):
        self.run_page("README.md", 25)


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("SKIPPED: there is no curl")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
