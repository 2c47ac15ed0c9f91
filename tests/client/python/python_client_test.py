# SPDX-License-Identifier: MIT
"""The Python client against a running server.

    python_client_test.py REPOSITORY mnemon-train mnemon-server PACKAGE

trains a tiny model, serves it on a free port of loopback and runs every test on it.
PACKAGE is the folder that the package is made in, or `installed` to take it from where
this Python finds it.
"""

import asyncio
import contextlib
import io
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import package_under_test
from served_model import TEXT, ServedModel

REPOSITORY, TRAIN, SERVER, PACKAGE = sys.argv[1:5]
PYTHON = f"{REPOSITORY}/client/python"
ENVIRONMENT = package_under_test.find(REPOSITORY, PACKAGE)
import grpc  # noqa: E402
import mnemon  # noqa: E402

ALPHABET = sorted(set(TEXT))


def setUpModule():
    global served, address
    # A folder that is empty when the server first starts.
    data = tempfile.TemporaryDirectory(prefix="mnemon-python-data.")
    unittest.addModuleCleanup(data.cleanup)
    served = ServedModel(
        *(REPOSITORY, TRAIN, SERVER, "--sessions", "2", "--running", "2"),
        *("--data-dir", data.name),
    )
    address = served.address


def tearDownModule():
    served.stop()


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = mnemon.Client(address)
        self.addCleanup(self.client.close)

    def text(self, prompt, **options):
        return self.client.generate(prompt, timeout=600, **options).text

    def test_messages_go_into_the_models_template(self):
        # Without one each is a line.
        lines = self.text("the\nman\n", max_tokens=20, seed=7)
        messages = [
            {"role": "user", "content": "the"},
            {"role": "assistant", "content": [{"type": "text", "text": "man"}]},
        ]
        self.assertEqual(self.text("", messages=messages, max_tokens=20, seed=7), lines)
        line = self.text("the\n", max_tokens=20, seed=7)
        self.assertEqual(self.text("", messages="the", max_tokens=20, seed=7), line)
        with self.assertRaisesRegex(mnemon.Error, "tools"):
            self.text("", messages="the", tools=[{"name": "tell"}])
        with self.assertRaisesRegex(TypeError, "not both"):
            self.text("the", messages="the")
        with self.assertRaisesRegex(TypeError, "needs messages"):
            self.text("the", tools=[{}])

    def test_unknown_characters_are_skipped(self):
        self.assertNotIn("\u20ac", ALPHABET)
        plain = self.text("the ", max_tokens=20, seed=7)
        options = {"max_tokens": 20, "seed": 7, "unknown_characters": "skip"}
        self.assertEqual(self.text("the\u20ac ", **options), plain)
        with self.assertRaisesRegex(ValueError, "not refuse, skip or replace"):
            self.text("the ", unknown_characters="drop")

    def test_streams_tokens_and_facts(self):
        chunks = list(self.client.generate("the ", max_tokens=20, seed=7, timeout=600))
        self.assertEqual(sum(len(c.tokens) for c in chunks), 20)
        self.assertEqual(chunks[0].prompt.token_count, 4)
        self.assertEqual(chunks[0].prompt.seed, 7)
        self.assertEqual(chunks[-1].finish.generated_token_count, 20)

    def test_text_and_token_prompts_agree(self):
        ids = [ALPHABET.index(c) for c in "the "]
        options = {"max_tokens": 20, "temperature": 0}
        self.assertEqual(self.text("the ", **options), self.text(ids, **options))

    def test_tokens_and_back(self):
        ids = self.client.tokenize("lazy dog")
        self.assertEqual(ids, [ALPHABET.index(c) for c in "lazy dog"])
        self.assertEqual(self.client.detokenize(ids), "lazy dog")

    def test_scores_a_text_in_parts(self):
        def scored(parts):
            result = self.client.score(parts, timeout=600).result()
            logprobs = [token.logprob for token in result.logprobs]
            self.assertEqual(result.token_count, len(logprobs))
            self.assertAlmostEqual(result.logprob_sum, sum(logprobs), places=3)
            self.assertGreater(result.perplexity, 1)
            return logprobs

        whole = scored("the quick brown fox")
        self.assertEqual(len(whole), 18)
        self.assertEqual(scored(["the quick", " brown fox"]), whole)
        self.assertEqual(scored(self.client.tokenize("the quick brown fox")), whole)
        tokens = self.client.score("the", top_candidate_count=2, timeout=600)
        self.assertEqual([len(token.candidates) for token in tokens], [2, 2])

    def test_a_decoder_does_not_predict(self):
        with self.assertRaises(mnemon.Unimplemented) as caught:
            self.client.predict([[1]])
        self.assertEqual(caught.exception.reason, "MODEL_KIND")

    def test_a_session_continues(self):
        options = {"temperature": 0, "max_tokens": 10}
        whole = self.text("the ", **{**options, "max_tokens": 20})
        with self.client.session("anna", keep=False) as anna:
            first = anna.generate("the ", **options).text
            self.assertEqual(anna.token_count, 14)
            self.assertEqual(first + anna.generate(**options).text, whole)
            self.assertEqual(anna.token_count, 24)
            self.assertEqual(anna.refresh().token_count, 24)
            self.assertEqual([s.id for s in self.client.list_sessions()], ["anna"])
        self.assertEqual(list(self.client.list_sessions()), [])

    def test_a_session_branches_and_goes_back(self):
        options = {"temperature": 0, "max_tokens": 6}
        with self.client.session() as anna:
            anna.generate("the ", **options).result()
            place = anna.checkpoint("before")
            self.assertEqual((place.id, place.token_count), ("before", 10))
            with anna.fork() as fork:
                self.assertEqual((fork.token_count, fork.info.parent), (10, anna.id))
                text = fork.generate(**options).text
            self.assertEqual(anna.generate(**options).text, text)
            self.assertEqual(anna.rewind(place).token_count, 10)
            self.assertEqual(anna.checkpoints[0].id, "before")
            self.assertEqual(anna.generate(**options).text, text)
            self.assertEqual(anna.rewind(4).token_count, 4)
            self.assertTrue(anna.verify(replay=True, timeout=600).ok)
            path = served.root / "anna.session"
            self.assertEqual(anna.export(path).token_count, 4)
            with self.client.import_session(path) as copy:
                self.assertEqual(copy.token_count, 4)
                self.assertEqual(copy.generate(**options).result().finish.token_count, 10)
        self.assertEqual(list(self.client.list_sessions()), [])
        self.assertEqual([p.name for p in served.root.glob("anna*")], ["anna.session"])

    def test_a_scored_text_joins_a_session_by_commit(self):
        with self.client.session() as anna:
            self.assertEqual(anna.score("the ").result().token_count, 3)
            self.assertEqual((anna.token_count, anna.refresh().token_count), (0, 0))
            anna.score("the ", commit=True).result()
            self.assertEqual((anna.token_count, anna.refresh().token_count), (4, 4))

    def test_sessions_have_a_ttl(self):
        for name, options, seconds in (
            ("day", {}, 86400),
            ("hour", {"ttl": 3600}, 3600),
            ("part", {"ttl": 90.5}, 90.5),
        ):
            with self.subTest(name):
                with self.client.create_session(name, keep=False, **options) as session:
                    expires = session.info.expire_time.timestamp()
                self.assertAlmostEqual(expires - time.time(), seconds, delta=600)

    def test_leaving_the_loop_cancels(self):
        for chunk in self.client.generate("the ", max_tokens=1500, timeout=600):
            break
        for _ in range(200):
            if not list(self.client.list_sessions()):
                break
            time.sleep(0.05)
        self.assertEqual(len(self.text("the ", max_tokens=5)), 5)

    def test_what_is_left_early_goes_on_in_its_session(self):
        with self.client.session() as anna:
            with anna.generate("the ", max_tokens=1500, timeout=600) as stream:
                next(stream)
            self.assertEqual(list(stream), [])
            self.assertEqual(anna.rewind(5).token_count, 5)
            with anna.generate(max_tokens=1500, timeout=600) as stream:
                next(stream)
            again = anna.generate(max_tokens=5, timeout=600).result()
            self.assertEqual(again.finish.generated_token_count, 5)
            self.assertEqual(anna.token_count, anna.refresh().token_count)

    def test_progress_is_silent_in_a_pipe(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(len(self.text("the ", max_tokens=5, progress=True)), 5)
        self.assertEqual(said.getvalue(), "")

    def test_cancel_from_another_thread(self):
        for options in ({}, {"session": "anna"}):
            with self.client.session("anna", keep=False):
                stream = self.client.generate(
                    "the ", max_tokens=1500, timeout=600, **options
                )
                next(stream)
                thread = threading.Thread(target=stream.cancel)
                thread.start()
                with self.assertRaises(mnemon.Cancelled):
                    list(stream)
                thread.join()

    def test_models_and_health(self):
        (model,) = self.client.list_models()
        self.assertEqual(model.architecture, "causal")
        self.assertEqual(model, self.client.get_model(model.id))
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
        self.assertEqual(self.client.session("a").id, "a")
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
        with mnemon.Client("127.0.0.1:1", timeout=600) as nobody:
            with self.assertRaises(mnemon.Unavailable):
                nobody.list_models()

    def test_addresses_without_a_port_get_it(self):
        from mnemon.target import default_server, target_of

        for server, target in {
            "localhost": "localhost:50051",
            "::1": "[::1]:50051",
            "[::1]": "[::1]:50051",
            "localhost:443": "localhost:443",
            "unix:/run/mnemon.sock": "unix:/run/mnemon.sock",
        }.items():
            self.assertEqual(target_of(server), target)
        with unittest.mock.patch.dict("os.environ", {"MNEMON_SERVER": "there:7"}):
            self.assertEqual(default_server(), "there:7")
            self.assertEqual(mnemon.Client("here").server, "here")
        with unittest.mock.patch.dict("os.environ", {"MNEMON_SERVER": ""}):
            self.assertEqual(default_server(), "127.0.0.1:50051")

    def test_unknown_options_are_named(self):
        for call in (self.client.generate, self.client.score, self.client.create_session):
            with self.assertRaisesRegex(TypeError, "'temprature'"):
                call("the ", temprature=1)
        with self.assertRaisesRegex(ValueError, "mask is 'half', not one of none, causal"):
            self.client.predict([[1]], mask="half")

    def test_a_session_of_another_model_is_refused(self):
        with self.client.session("anna", keep=False) as anna:
            with self.assertRaisesRegex(ValueError, "belongs to model"):
                self.client.session("anna", model="other")
            again = self.client.session("anna", model=anna.model)
            self.assertEqual((again.id, again.keep), ("anna", True))

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
                return (
                    await client.generate(prompt, max_tokens=30, seed=3, timeout=600)
                ).text

            prompts = ["the ", "quick ", "lazy dog"]
            alone = [await text(p) for p in prompts]
            self.assertEqual(await asyncio.gather(*map(text, prompts)), alone)

    async def test_sessions_and_errors(self):
        async with mnemon.aio.Client(address) as client:
            async with client.session("berta", ttl=60, keep=False) as session:
                expires = session.info.expire_time.timestamp()
                self.assertAlmostEqual(expires - time.time(), 60, delta=600)
                ids = [s.id async for s in client.list_sessions()]
                self.assertEqual(ids, ["berta"])
            with self.assertRaises(mnemon.NotFound):
                await client.get_session("berta")
            with self.assertRaises(mnemon.InvalidArgument) as caught:
                async for _ in client.generate("the ", temperature=-1):
                    pass
            self.assertEqual(
                caught.exception.field_violations[0].field, "sampling.temperature"
            )
            self.assertTrue(await client.is_serving())

    async def test_a_session_as_of_threads(self):
        options = {"temperature": 0, "max_tokens": 6}
        async with mnemon.aio.Client(address) as client:
            async with client.session() as anna:
                chunks = [chunk async for chunk in anna.generate("the ", **options)]
                self.assertEqual(sum(len(c.tokens) for c in chunks), 6)
                place = await anna.checkpoint()
                async with anna.fork() as fork:
                    text = (await fork.generate(**options)).text
                self.assertEqual((await anna.generate(**options)).text, text)
                self.assertEqual((await anna.rewind(place)).token_count, 10)
                await anna.score("fox", commit=True)
                self.assertEqual(anna.token_count, 13)
                await anna.update(ttl=50)
                path = served.root / "berta.session"
                await anna.export(path)
                async with client.import_session(path) as copy:
                    self.assertTrue((await copy.verify(replay=True)).ok)
            self.assertEqual([s async for s in client.list_sessions()], [])
            (model,) = await client.list_models()
            self.assertEqual(model, await client.get_model(model.id))
            self.assertEqual(await client.detokenize(await client.tokenize("fox")), "fox")

    async def test_a_cancelled_task_or_stream_ends_its_call(self):
        async with mnemon.aio.Client(address) as client:
            async with client.session() as anna:
                stream = anna.generate("the ", max_tokens=1500, timeout=600)
                await stream.__anext__()
                task = asyncio.ensure_future(stream.result())
                await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                stream = anna.generate(max_tokens=1500, timeout=600)
                await stream.__anext__()
                stream.cancel()
                with self.assertRaises(mnemon.Cancelled):
                    await stream
                self.assertEqual(len((await anna.generate(max_tokens=5)).tokens), 5)


class KilledServerTest(unittest.TestCase):
    OPTIONS = {"max_tokens": 1000, "seed": 5, "timeout": 60}

    def expect_whole(self, whole, result, streamed):
        self.assertEqual(result.text, whole)
        self.assertTrue(whole.startswith(streamed))
        self.assertGreaterEqual(result.resumes, 1)
        self.assertEqual(result.finish.generated_token_count, 1000)

    def test_a_killed_server_loses_and_repeats_nothing(self):
        with mnemon.Client(address) as client:
            whole = client.generate("the ", **self.OPTIONS).text
            with client.session(durability="always") as anna:
                stream = anna.generate("the ", **self.OPTIONS)
                first = next(stream).text
                served.kill_and_restart()
                self.expect_whole(whole, stream.result(), first)
                self.assertEqual(anna.token_count, anna.refresh().token_count)

    def test_the_same_with_asyncio(self):
        async def use():
            async with mnemon.aio.Client(address) as client:
                whole = (await client.generate("the ", **self.OPTIONS)).text
                async with client.session(durability="always") as anna:
                    stream = anna.generate("the ", **self.OPTIONS)
                    first = (await stream.__anext__()).text
                    served.kill_and_restart()
                    self.expect_whole(whole, await stream, first)

        asyncio.run(asyncio.wait_for(use(), timeout=600))


class ExamplesTest(unittest.TestCase):
    def run_example(self, name, server):
        return subprocess.run(
            [sys.executable, f"{PYTHON}/examples/{name}", "the "]
            + ["--server", server, "--max-tokens", "9"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=600,
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
