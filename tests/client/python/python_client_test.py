# SPDX-License-Identifier: MIT
"""The Python client against a running server.

    python_client_test.py REPOSITORY mnemon-train mnemon-server PACKAGE

trains a tiny model, serves it on a free port of loopback and runs every test on it.
PACKAGE is the folder that the package is made in, or `installed` to take it from where
this Python finds it.
"""

import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import grpc  # noqa: F401
except ImportError:
    print("SKIPPED: this Python has no grpc; install the package python3-grpcio")
    sys.exit(77)

REPOSITORY, TRAIN, SERVER, PACKAGE = sys.argv[1:5]
PYTHON = f"{REPOSITORY}/client/python"
ENVIRONMENT = dict(os.environ)
if PACKAGE != "installed":
    subprocess.run(
        [sys.executable, f"{PYTHON}/generate_descriptors.py", "--out", PACKAGE],
        check=True,
        timeout=60,
    )
    sys.path.insert(0, PACKAGE)
    ENVIRONMENT["PYTHONPATH"] = PACKAGE
import mnemon  # noqa: E402

TEXT = "the quick brown fox jumps over the lazy dog.\n" * 400


def setUpModule():
    global folder, server, address
    folder = tempfile.TemporaryDirectory(prefix="mnemon-python.")
    root = pathlib.Path(folder.name)
    (root / "text.txt").write_text(TEXT)
    subprocess.run(
        [TRAIN, "fit", "--config", f"{REPOSITORY}/train/configs/causal-small.toml"]
        + ["--set", f"data.text={root}/text.txt", "--set", "train.steps=5"]
        + ["--set", "model.layers=1", "--set", "model.d_model=16"]
        + ["--set", "model.d_ff=32", "--out", f"{root}/run"],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    server = subprocess.Popen(
        [SERVER, "--checkpoint", f"{root}/run/last", "--listen", "127.0.0.1:0"]
        + ["--port-file", f"{root}/port", "--sessions", "2", "--running", "2"],
        stderr=subprocess.DEVNULL,
    )
    port = root / "port"
    for _ in range(300):
        if port.exists() and port.read_text().strip():
            break
        time.sleep(0.05)
    address = f"127.0.0.1:{port.read_text().strip()}"


def tearDownModule():
    server.terminate()
    code = server.wait(timeout=30)
    folder.cleanup()
    assert code == 0, f"the server ended with {code}"


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = mnemon.Client(address)
        self.addCleanup(self.client.close)

    def text(self, prompt, **options):
        return "".join(c.text for c in self.client.generate(prompt, timeout=30, **options))

    def test_streams_tokens_and_facts(self):
        chunks = list(self.client.generate("the ", max_tokens=20, seed=7, timeout=30))
        self.assertEqual(sum(len(c.tokens) for c in chunks), 20)
        self.assertEqual(chunks[0].prompt.token_count, 4)
        self.assertEqual(chunks[0].prompt.seed, 7)
        self.assertEqual(chunks[-1].finish.generated_token_count, 20)

    def test_text_and_token_prompts_agree(self):
        ids = [sorted(set(TEXT)).index(c) for c in "the "]
        options = {"max_tokens": 20, "temperature": 0}
        self.assertEqual(self.text("the ", **options), self.text(ids, **options))

    def test_tokens_and_back(self):
        ids = self.client.tokenize("lazy dog")
        self.assertEqual(ids, [sorted(set(TEXT)).index(c) for c in "lazy dog"])
        self.assertEqual(self.client.detokenize(ids), "lazy dog")

    def test_scores_a_text_in_parts(self):
        def scored(parts):
            responses = list(self.client.score(parts, timeout=30))
            logprobs = [t.logprob for r in responses for t in r.logprobs]
            summary = responses[-1].summary
            self.assertEqual(summary.token_count, len(logprobs))
            self.assertAlmostEqual(summary.logprob_sum, sum(logprobs), places=3)
            return logprobs

        whole = scored(["the quick brown fox"])
        self.assertEqual(len(whole), 18)
        self.assertEqual(scored(["the quick", " brown fox"]), whole)

    def test_a_decoder_does_not_predict(self):
        from mnemon.v1 import generation_pb2

        with self.assertRaises(mnemon.Unimplemented) as caught:
            self.client.predict(
                generation_pb2.PredictRequest(sequences=[generation_pb2.Tokens(ids=[1])])
            )
        self.assertEqual(caught.exception.reason, "MODEL_KIND")

    def test_a_session_continues(self):
        self.client.create_session("anna")
        self.addCleanup(self.client.delete_session, "anna")
        options = {"temperature": 0, "max_tokens": 10}
        whole = self.text("the ", **{**options, "max_tokens": 20})
        first = self.text("the ", session="anna", **options)
        self.assertEqual(first + self.text("", session="anna", **options), whole)
        self.assertEqual(self.client.get_session("anna").token_count, 24)
        names = [s.name for s in self.client.list_sessions()]
        self.assertEqual(names, ["sessions/anna"])

    def test_sessions_have_a_ttl(self):
        for name, options, seconds in (
            ("day", {}, 86400),
            ("hour", {"ttl": 3600}, 3600),
            ("part", {"ttl": 90.5}, 90.5),
        ):
            with self.subTest(name):
                session = self.client.create_session(name, **options)
                self.client.delete_session(name)
                expires = session.expire_time.ToMilliseconds() / 1000
                self.assertAlmostEqual(expires - time.time(), seconds, delta=10)

    def test_leaving_the_loop_cancels(self):
        for chunk in self.client.generate("the ", max_tokens=1500, timeout=30):
            break
        for _ in range(200):
            if not list(self.client.list_sessions()):
                break
            time.sleep(0.05)
        self.assertEqual(len(self.text("the ", max_tokens=5)), 5)

    def test_models_and_health(self):
        (model,) = self.client.list_models()
        self.assertEqual(model.architecture, "causal")
        self.assertTrue(self.client.is_serving())
        self.assertTrue(self.client.is_serving("mnemon.v1.Generation"))
        with self.assertRaises(mnemon.NotFound):
            self.client.is_serving("no.such.Service")

    def test_field_violations_come_from_the_standard_details(self):
        with self.assertRaises(mnemon.InvalidArgument) as caught:
            self.text("the ", top_p=7)
        (violation,) = caught.exception.field_violations
        self.assertEqual(violation.field, "sampling.top_p")
        self.assertIn("7", violation.description)
        self.assertEqual(caught.exception.code, grpc.StatusCode.INVALID_ARGUMENT)

    def test_retry_delays_come_from_the_standard_details(self):
        for name in ("a", "b"):
            self.client.create_session(name)
            self.addCleanup(self.client.delete_session, name)
        with self.assertRaises(mnemon.ResourceExhausted) as caught:
            self.client.create_session("c")
        self.assertGreater(caught.exception.retry_after.total_seconds(), 0)
        self.assertTrue(caught.exception.reason)

    def test_not_found_and_already_exists(self):
        with self.assertRaises(mnemon.NotFound) as caught:
            self.client.get_session("nobody")
        self.assertEqual(caught.exception.reason, "SESSION_NOT_FOUND")
        self.client.create_session("twice")
        self.addCleanup(self.client.delete_session, "twice")
        with self.assertRaises(mnemon.AlreadyExists):
            self.client.create_session("twice")

    def test_deadline_and_no_server(self):
        with self.assertRaises(mnemon.DeadlineExceeded):
            list(self.client.generate("the ", max_tokens=1500, timeout=0.005))
        with mnemon.Client("127.0.0.1:1", timeout=5) as nobody:
            with self.assertRaises(mnemon.Unavailable):
                nobody.list_models()

    def test_addresses_without_a_port_get_it(self):
        from mnemon.target import target_of

        for server, target in {
            "localhost": "localhost:50051",
            "::1": "[::1]:50051",
            "[::1]": "[::1]:50051",
            "localhost:443": "localhost:443",
            "unix:/run/mnemon.sock": "unix:/run/mnemon.sock",
        }.items():
            self.assertEqual(target_of(server), target)

    def test_unknown_options_are_named(self):
        with self.assertRaisesRegex(TypeError, "'temprature'"):
            self.client.generate("the ", temprature=1)

    def internal(self, details, metadata=None):
        """INTERNAL as grpc raises it, made an error of the package."""
        from mnemon import errors

        class Internal(grpc.RpcError):
            def code(self):
                return grpc.StatusCode.INTERNAL

            def details(self):
                return details

            def trailing_metadata(self):
                return metadata

        return errors.from_rpc_error(Internal())

    def test_damaged_details_leave_the_error_usable(self):
        error = self.internal("broken", (("grpc-status-details-bin", b"\xff\xff\xff"),))
        self.assertIsInstance(error, mnemon.Internal)
        self.assertEqual((error.message, error.details), ("broken", []))

    def test_a_message_that_was_not_sent_is_a_lost_stream(self):
        self.assertIsInstance(self.internal("Internal error from Core"), mnemon.Unavailable)


class AsyncClientTest(unittest.IsolatedAsyncioTestCase):
    async def test_streams_at_once_equal_streams_alone(self):
        async with mnemon.aio.Client(address) as client:

            async def text(prompt):
                chunks = client.generate(prompt, max_tokens=30, seed=3, timeout=30)
                return "".join([chunk.text async for chunk in chunks])

            prompts = ["the ", "quick ", "lazy dog"]
            alone = [await text(p) for p in prompts]
            self.assertEqual(await asyncio.gather(*map(text, prompts)), alone)

    async def test_sessions_and_errors(self):
        async with mnemon.aio.Client(address) as client:
            session = await client.create_session("berta", ttl=60)
            expires = session.expire_time.ToMilliseconds() / 1000
            self.assertAlmostEqual(expires - time.time(), 60, delta=10)
            self.assertEqual(
                [s.name for s in await client.list_sessions()], ["sessions/berta"]
            )
            await client.delete_session("berta")
            with self.assertRaises(mnemon.NotFound):
                await client.get_session("berta")
            with self.assertRaises(mnemon.InvalidArgument) as caught:
                async for _ in client.generate("the ", temperature=-1):
                    pass
            self.assertEqual(
                caught.exception.field_violations[0].field, "sampling.temperature"
            )
            self.assertTrue(await client.is_serving())


class ExamplesTest(unittest.TestCase):
    def run_example(self, name, server):
        return subprocess.run(
            [sys.executable, f"{PYTHON}/examples/{name}", "the "]
            + ["--server", server, "--max-tokens", "9"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_examples_stream_or_say_why_not(self):
        for name in ("stream.py", "concurrent_streams.py"):
            ran = self.run_example(name, address)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertGreaterEqual(len(ran.stdout), 9)
            ran = self.run_example(name, "127.0.0.1:1")
            self.assertEqual((ran.returncode, ran.stdout), (1, ""))
            self.assertRegex(ran.stderr, r"\AUNAVAILABLE: .*\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
