# SPDX-License-Identifier: MIT
"""A tiny model, trained and served on a free port of loopback, for tests."""

import pathlib
import subprocess
import tempfile
import time

TEXT = """\
the quick brown fox jumps over the lazy dog. It is so; But why? And then?
Once upon a time...
""" * 250


class ServedModel:
    """With a folder of its own, `root`, until stop()."""

    def __init__(self, repository: str, train: str, server: str, *flags: str):
        self._folder = tempfile.TemporaryDirectory(prefix="mnemon-python.")
        self.root = pathlib.Path(self._folder.name)
        (self.root / "text.txt").write_text(TEXT)
        subprocess.run(
            [train, "fit", "--config", f"{repository}/train/configs/causal-small.toml"]
            + ["--set", f"data.text={self.root}/text.txt", "--set", "train.steps=5"]
            + ["--set", "model.layers=1", "--set", "model.d_model=16"]
            + ["--set", "model.d_ff=32", "--out", f"{self.root}/run"],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=600,
        )
        self._command = [server, "--checkpoint", f"{self.root}/run/last", *flags]
        self._start("127.0.0.1:0")

    def kill_and_restart(self):
        """At the same address."""
        self.process.kill()
        self.process.wait(timeout=600)
        self._start(self.address)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(timeout=600)
        self._folder.cleanup()
        assert code == 0, f"the server ended with {code}"

    def _start(self, listen: str):
        port, log = self.root / "port", self.root / "server.log"
        port.unlink(missing_ok=True)
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [*self._command, "--listen", listen, "--http", "127.0.0.1:0"]
                + ["--port-file", str(port)],
                stderr=file,
            )
        for _ in range(12000):
            if port.exists() and port.read_text().strip():
                self.address = f"127.0.0.1:{port.read_text().strip()}"
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.process.kill()
        self.process.wait(timeout=600)
        raise RuntimeError(f"the server did not start: {log.read_text()}")
