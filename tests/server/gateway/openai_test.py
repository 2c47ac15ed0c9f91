#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The HTTP API with the package openai of PyPI, and the examples of docs/http_api.md word
by word, against mnemon-server over a model with random weights.

    openai_test.py REPOSITORY mnemon-train mnemon-server VENV

VENV is made once. Skipped where PyPI, or the mirror that pip is configured for, does not
answer in time.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

REPOSITORY, TRAIN, SERVER, VENV = (pathlib.Path(path).resolve() for path in sys.argv[1:5])
OPENAI = "openai==3.57.0"
INSTALL_SECONDS = 600  # pip itself gives an index up that is silent
SKIPPED = 77
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,:\n"


def prepare() -> bool:
    """Whether this runs with the package; starts itself again with it otherwise."""
    if sys.prefix == str(VENV):
        return True
    python = VENV / "bin/python"
    done = VENV / OPENAI
    if not done.exists():
        shutil.rmtree(VENV, ignore_errors=True)
        try:
            for command in (
                [sys.executable, "-m", "venv", VENV],
                [python, "-m", "pip", "install", "--quiet", "--timeout=5", "--retries=1"]
                + ["--disable-pip-version-check", "--only-binary=:all:", OPENAI],
            ):
                subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
        except (subprocess.SubprocessError, OSError) as failure:
            print(f"SKIPPED: {OPENAI} could not be installed: {failure}")
            sys.exit(SKIPPED)
        done.touch()
    os.execv(python, [python, "-B", *sys.argv])


def train(folder: pathlib.Path) -> pathlib.Path:
    (folder / "text.txt").write_text(LETTERS * 400)
    subprocess.run(
        [TRAIN, "fit", "--config", REPOSITORY / "train/configs/fast_weights-small.toml"]
        + ["--set", f"data.text={folder}/text.txt", "--set", "train.steps=1"]
        + ["--set", "model.d_model=16", "--set", "model.heads=2", "--set", "model.d_ff=16"]
        + ["--set", "model.layers=1", "--set", "data.batch=2", "--out", folder / "run"],
        check=True,
        timeout=600,
        stdout=subprocess.DEVNULL,
    )
    return folder / "run/last"


def examples(language: str) -> list[str]:
    text = (REPOSITORY / "docs/http_api.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


class OpenAiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from openai import OpenAI

        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.server = subprocess.Popen(
            [SERVER, "--checkpoint", train(cls.folder), "--listen", "127.0.0.1:0"]
            + ["--http", "127.0.0.1:0", "--http-port-file", cls.folder / "port"]
            + ["--log-level", "warning"]
        )
        deadline = time.monotonic() + 600
        while not (cls.folder / "port").exists():
            assert cls.server.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        cls.port = int((cls.folder / "port").read_text())
        cls.client = OpenAI(
            base_url=f"http://127.0.0.1:{cls.port}/v1", api_key="none", max_retries=0
        )

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        ended = cls.server.wait(timeout=600)
        shutil.rmtree(cls.folder)
        assert ended == 0, ended

    def complete(self, **fields):
        values = {"model": "default", "prompt": "It is ", "max_tokens": 12, "seed": 5}
        return self.client.completions.create(**{**values, **fields})

    def test_list(self):
        models = list(self.client.models.list())
        self.assertEqual([model.id for model in models], ["default"])
        self.assertEqual(self.client.models.retrieve("default").owned_by, "mnemon")

    def test_completion_and_stream(self):
        whole = self.complete()
        self.assertEqual(whole.usage.completion_tokens, 12)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        parts = list(self.complete(stream=True, stream_options={"include_usage": True}))
        text = "".join(part.choices[0].text for part in parts if part.choices)
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(parts[-1].usage, whole.usage)

    def test_stop_logprobs_and_more(self):
        text = self.complete().choices[0].text
        stopped = self.complete(stop=[text[4]]).choices[0]
        self.assertEqual(stopped.text, text[: text.index(text[4])])
        self.assertEqual(stopped.finish_reason, "stop")
        logprobs = self.complete(logprobs=3).choices[0].logprobs
        self.assertEqual("".join(logprobs.tokens), text)
        self.assertEqual(len(logprobs.top_logprobs[0]), 3)
        greedy = self.complete(extra_body={"top_k": 1}).choices[0].text
        self.assertEqual(greedy, self.complete(temperature=0).choices[0].text)
        self.assertEqual(len(self.complete(prompt=["a", "b"], n=2).choices), 4)

    def test_chat(self):
        messages = [{"role": "user", "content": "It is"}]
        values = {"model": "default", "messages": messages, "max_tokens": 9, "seed": 2}
        whole = self.client.chat.completions.create(**values)
        parts = list(self.client.chat.completions.create(**values, stream=True))
        text = "".join(part.choices[0].delta.content or "" for part in parts)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(text, self.complete(prompt="It is\n", max_tokens=9, seed=2).choices[0].text)
        logged = self.client.chat.completions.create(**values, logprobs=True, top_logprobs=2)
        self.assertEqual(len(logged.choices[0].logprobs.content), 9)

    def test_responses(self):
        values = {"model": "default", "max_output_tokens": 8}
        first = self.client.responses.create(input="It is", **values)
        again = self.client.responses.create(
            input="And then", previous_response_id=first.id, **values
        )
        self.assertEqual(again.previous_response_id, first.id)
        self.assertEqual(again.usage.input_tokens, len("\nAnd then\n"))
        events = list(self.client.responses.create(input="It is", stream=True, **values))
        deltas = [one.delta for one in events if one.type == "response.output_text.delta"]
        self.assertEqual(events[-1].type, "response.incomplete")
        self.assertEqual(events[-1].response.output_text, "".join(deltas))
        self.client.responses.delete(first.id)

    def test_errors(self):
        import openai

        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertEqual(caught.exception.code, "INVALID_VALUE")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.complete(model="none")
        self.assertEqual(caught.exception.code, "MODEL_NOT_FOUND")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.complete(prompt="\u20ac")
        self.assertEqual(caught.exception.code, "UNKNOWN_CHARACTER")

    def test_the_examples_of_the_documentation(self):
        for line in examples("")[0].strip().splitlines():
            with self.subTest(line):
                command = line.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
                command = command.replace("curl ", "curl -sS --fail-with-body ")
                ended = subprocess.run(
                    command, shell=True, timeout=600, text=True, capture_output=True
                )
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                if "stream" in line:
                    self.assertTrue(ended.stdout.endswith("data: [DONE]\n\n"))
                else:
                    json.loads(ended.stdout)
        for text in examples("python"):
            with self.subTest(text):
                code = text.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}")
                ended = subprocess.run(
                    [sys.executable, "-c", code], timeout=600, text=True, capture_output=True
                )
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertNotEqual(ended.stdout, "")


if __name__ == "__main__" and prepare():
    unittest.main(argv=sys.argv[:1], verbosity=1)
