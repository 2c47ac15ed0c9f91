# SPDX-License-Identifier: MIT
"""Calls of the Python client that are lost and made again, against a fake.

    python_resume_test.py REPOSITORY PACKAGE

PACKAGE is the folder that the package is made in, or `installed` to take it from where
this Python finds it.
"""

import asyncio
import concurrent.futures
import io
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import package_under_test

# With epoll the server of this process would do the client's polling for it.
os.environ["GRPC_POLL_STRATEGY"] = "poll"
REPOSITORY, PACKAGE = sys.argv[1:3]
ENVIRONMENT = package_under_test.find(REPOSITORY, PACKAGE)
import grpc  # noqa: E402
import mnemon  # noqa: E402
from mnemon.descriptors import message_class  # noqa: E402
from mnemon.v1 import generation_pb2, sessions_pb2  # noqa: E402

FIRST, ANSWER = 8, 6  # index of the first generated token, tokens of an answer
TEXT = "".join(f"{i}," for i in range(FIRST, FIRST + ANSWER))
CUT = (grpc.StatusCode.UNAVAILABLE, "", None)  # code, reason, seconds to wait
UNKNOWN = (grpc.StatusCode.NOT_FOUND, "REQUEST_UNKNOWN", None)


def fail(context, code, reason, seconds):
    if reason:
        status = message_class("google.rpc.Status")(code=code.value[0])
        status.details.add().Pack(message_class("google.rpc.ErrorInfo")(reason=reason))
        if seconds is not None:
            retry = message_class("google.rpc.RetryInfo")()
            retry.retry_delay.FromNanoseconds(round(seconds * 1e9))
            status.details.add().Pack(retry)
        context.set_trailing_metadata(
            (("grpc-status-details-bin", status.SerializeToString()),)
        )
    context.abort(code, f"the server says {reason or 'nothing'}")


class Fake:
    """`script`: of each stream how many tokens it has (None: no message at all) and how
    it ends; streams beyond it run to their end. `losing`: the next call of that name is lost.
    """

    def __init__(self):
        self.script = []
        self.known = None
        self.requests = []
        self.losing = ""
        self.lost_ids = []
        self.sent = {}
        self.snapshot = b""
        self.hanging = threading.Event()
        self.left = threading.Event()
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        def handler(kind, message, method):
            return getattr(grpc, f"{kind}_rpc_method_handler")(
                method,
                request_deserializer=message.FromString,
                response_serializer=lambda response: response.SerializeToString(),
            )

        generate = handler("unary_stream", generation_pb2.GenerateRequest, self.generate)
        sessions = {
            name: handler("unary_unary", getattr(sessions_pb2, f"{name}Request"), method)
            for name, method in {
                "CreateSession": self.unary("create"),
                "GetSession": self.unary("get"),
                "ForkSession": self.unary("fork"),
                "RewindSession": self.unary("rewind"),
                "UpdateSession": self.unary("update"),
            }.items()
        }
        sessions["ImportSession"] = handler(
            "stream_unary", sessions_pb2.ImportSessionRequest, self.take_snapshot
        )
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        self.server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "mnemon.v1.Generation", {"Generate": generate}
                ),
                grpc.method_handlers_generic_handler("mnemon.v1.Sessions", sessions),
            )
        )
        self.address = f"127.0.0.1:{self.server.add_insecure_port(self.address)}"
        self.server.start()

    def stop(self):
        self.server.stop(grace=None).wait(timeout=600)

    def generate(self, request, context):
        self.requests.append(request)
        tokens, end = self.script.pop(0) if self.script else (ANSWER, None)
        resumes = request.HasField("resume_after_index")
        if tokens is None:
            fail(context, *end)
        if resumes and request.request_id != self.known:
            fail(context, *UNKNOWN)
        self.known = request.request_id
        yield generation_pb2.GenerateResponse(
            prompt=generation_pb2.PromptFacts(model="models/small", token_count=3)
        )
        after = request.resume_after_index if resumes else -1
        begin = after + 1 if after >= 0 else FIRST
        for at in range(begin, min(begin + tokens, FIRST + ANSWER)):
            yield generation_pb2.GenerateResponse(
                first_index=at, tokens=[100 + at], text=f"{at},"
            )
        if end == "forget":
            self.known = None
            fail(context, *CUT)
        if end == "hang":
            self.hanging.set()
            while context.is_active():
                time.sleep(0.002)
            self.left.set()
        elif end is not None and end != "late":
            fail(context, *end)
        yield generation_pb2.GenerateResponse(
            finish=generation_pb2.FinishFacts(generated_token_count=ANSWER)
        )
        if end == "late":
            fail(context, *CUT)

    def lost(self, name, request_id, context):
        if self.losing == name:
            self.losing = ""
            self.lost_ids.append(request_id)
            fail(context, *CUT)

    def unary(self, name):
        def method(request, context):
            self.lost(name, getattr(request, "request_id", ""), context)
            self.sent[name] = request
            return sessions_pb2.Session(name="sessions/anna")

        return method

    def take_snapshot(self, messages, context):
        self.sent["import"] = next(messages).open
        self.snapshot = b""
        for message in messages:
            self.snapshot += message.chunk
            self.lost("import", self.sent["import"].request_id, context)
        return sessions_pb2.Session(name="sessions/copy")


class Threads:
    """The client for threads, with lists for streams."""

    def __init__(self, address, **options):
        self.client = mnemon.Client(address, timeout=600, **options)

    def generate(self, *arguments, **options):
        chunks = []
        try:
            for chunk in self.client.generate(*arguments, **options):
                chunks.append(chunk)
        except mnemon.Error as error:
            return chunks, error
        return chunks, None

    def call(self, method, *arguments, **options):
        return getattr(self.client, method)(*arguments, **options)

    def call_on(self, session, method, *arguments, **options):
        return getattr(self.client.get_session(session), method)(*arguments, **options)

    def result(self, *arguments, **options):
        return self.client.generate(*arguments, **options).result()

    def close(self):
        self.client.close()


class Asyncio:
    """The same over the client for asyncio."""

    def __init__(self, address, **options):
        self.loop = asyncio.new_event_loop()

        async def connect():
            return mnemon.aio.Client(address, timeout=600, **options)

        self.client = self.loop.run_until_complete(connect())

    def generate(self, *arguments, **options):
        async def collect():
            chunks = []
            try:
                async for chunk in self.client.generate(*arguments, **options):
                    chunks.append(chunk)
            except mnemon.Error as error:
                return chunks, error
            return chunks, None

        return self.loop.run_until_complete(collect())

    def call(self, method, *arguments, **options):
        async def call():
            return await getattr(self.client, method)(*arguments, **options)

        return self.loop.run_until_complete(call())

    def call_on(self, session, method, *arguments, **options):
        async def call():
            handle = await self.client.get_session(session)
            return await getattr(handle, method)(*arguments, **options)

        return self.loop.run_until_complete(call())

    def result(self, *arguments, **options):
        async def collect():
            return await self.client.generate(*arguments, **options)

        return self.loop.run_until_complete(collect())

    def close(self):
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


class ResumeTests:
    """Of both clients: `Connect` makes the one; `patience`: seconds that it has to go on
    with a server that is back."""

    def setUp(self):
        self.fake = Fake()
        self.addCleanup(self.fake.stop)
        self.client = self.connect()

    def connect(self, **options):
        client = self.Connect(self.fake.address, **options)
        self.addCleanup(client.close)
        return client

    def generate(self, client=None, **options):
        options = {"session": "anna", "max_tokens": ANSWER, "timeout": 600, **options}
        chunks, error = (client or self.client).generate("abc", **options)
        return "".join(chunk.text for chunk in chunks), error, chunks

    def expect_whole(self, **options):
        text, error, chunks = self.generate(**options)
        self.assertIsNone(error)
        self.assertEqual(text, TEXT)
        self.assertEqual(sum(c.prompt is not None for c in chunks), 1)
        self.assertEqual(
            [c.finish is not None for c in chunks].index(True), len(chunks) - 1
        )

    def test_a_lost_stream_goes_on_after_its_last_token(self):
        self.fake.script = [(3, CUT), (0, CUT), (2, CUT)]
        self.expect_whole()
        first, *others = self.fake.requests
        self.assertEqual(len(first.request_id), 36)
        self.assertEqual([r.resume_after_index for r in others], [10, 10, 12])
        for request in others:
            self.assertEqual(request.request_id, first.request_id)
            self.assertFalse(request.HasField("prompt"))

    def test_without_a_token_it_begins_with_the_first(self):
        self.client.call("get_session", "anna")
        self.fake.script = [(None, CUT), (0, CUT)]
        self.expect_whole()
        self.assertEqual(self.fake.requests[1], self.fake.requests[0])
        self.assertEqual(self.fake.requests[2].resume_after_index, -1)

    def test_a_forgotten_call_is_repeated_or_an_error(self):
        self.fake.script = [(0, "forget")]
        self.expect_whole()
        self.assertEqual(self.fake.requests[2], self.fake.requests[0])
        self.fake.script = [(2, "forget")]
        text, error, _ = self.generate()
        self.assertEqual(text, "8,9,")
        self.assertIsInstance(error, mnemon.NotFound)
        self.assertEqual(error.reason, "REQUEST_UNKNOWN")
        self.assertIn("2 tokens came, the last one of index 9", error.message)
        self.assertIn("the server has forgotten the call", error.message)

    def test_the_time_that_the_server_asks_for_passes(self):
        self.fake.script = [(1, (grpc.StatusCode.UNAVAILABLE, "DRAINING", 0.7))]
        begin = time.monotonic()
        self.expect_whole()
        self.assertGreaterEqual(time.monotonic() - begin, 0.7)
        self.fake.script = [(1, (grpc.StatusCode.UNAVAILABLE, "DRAINING", 99))]
        text, error, _ = self.generate()
        self.assertEqual(text, "8,")
        self.assertIsInstance(error, mnemon.Unavailable)
        self.assertIn("but the stream was lost", error.message)

    def test_what_passes_is_waited_for_only_once_the_call_has_begun(self):
        busy = (grpc.StatusCode.ABORTED, "SESSION_BUSY", 0.01)
        full = (grpc.StatusCode.RESOURCE_EXHAUSTED, "NO_FREE_BLOCKS", 0.01)
        self.fake.script = [(2, full), (None, busy)]
        self.expect_whole()
        self.fake.script = [(None, full)]
        self.assertIsInstance(self.generate()[1], mnemon.ResourceExhausted)
        for code, reason in (("ABORTED", "STREAM_RESUMED"), ("INTERNAL", "MODEL_FAILURE")):
            self.fake.script = [(2, (grpc.StatusCode[code], reason, None))]
            self.assertEqual(self.generate()[1].reason, reason)

    def test_calls_without_a_session_or_the_wish_are_made_once(self):
        for options in ({"session": ""}, {"resume": False}):
            self.fake.script = [(2, CUT)]
            text, error, _ = self.generate(**options)
            self.assertEqual(text, "8,9,")
            self.assertIsInstance(error, mnemon.Unavailable)
            self.assertEqual(self.fake.requests[-1].request_id, "")
        once = self.connect(retry=mnemon.Retry(tries=1))
        self.fake.script = [(2, CUT)]
        self.assertIsInstance(self.generate(once)[1], mnemon.Unavailable)
        self.assertEqual(len(self.fake.requests), 3)

    def test_an_earlier_call_is_resumed_by_hand(self):
        self.fake.known = mnemon.new_request_id()
        self.fake.script = [(0, CUT)]
        text, error, _ = self.generate(
            request_id=self.fake.known,
            resume_after_index=9,
            expected_token_count=4,
            on_disconnect="continue",
        )
        self.assertIsNone(error)
        self.assertEqual(text, "10,11,12,13,")
        first = self.fake.requests[0]
        self.assertEqual(first.on_disconnect, generation_pb2.CONTINUE)
        self.assertEqual(first.expected_token_count, 4)
        for options in ({"resume_after_index": 3}, {"request_id": "x", "session": ""}):
            with self.assertRaises(TypeError):
                self.generate(**{"resume_after_index": 3, **options})
        with self.assertRaisesRegex(ValueError, "'stop'"):
            self.generate(on_disconnect="stop")

    def test_a_server_that_is_away_for_a_while_is_awaited(self):
        self.fake.script = [(3, "hang")]

        def restart():
            self.fake.hanging.wait(600)
            self.fake.stop()
            time.sleep(0.5)
            self.fake.start()

        thread = threading.Thread(target=restart)
        thread.start()
        self.addCleanup(thread.join)
        self.expect_whole()

    def test_while_the_server_is_there_the_pauses_pass(self):
        self.client.call("get_session", "anna")
        self.fake.script = [(None, CUT)] * 2
        begin = time.monotonic()
        self.expect_whole()
        self.assertGreaterEqual(time.monotonic() - begin, 0.16 + 0.32)

    def test_a_server_that_is_back_ends_the_pause(self):
        ready, idle = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.IDLE
        pause = mnemon.resume.Pause(0, 9, False)
        pause.see(ready)
        self.assertGreater(pause.left(), 8)
        pause.see(idle)
        self.assertGreater(pause.left(), 8)
        pause.see(ready)
        self.assertLessEqual(pause.left(), 0.05)
        asked = mnemon.resume.Pause(5, 9, True)
        asked.see(ready)
        self.assertGreater(asked.left(), 4)
        self.assertLessEqual(asked.left(), 5)

    def test_tries_and_time_are_bounded(self):
        few = self.connect(retry=mnemon.Retry(tries=2))
        self.fake.script = [(None, CUT)] * 2
        self.assertIsInstance(self.generate(few)[1], mnemon.Unavailable)
        # Nothing was reached before that, as far as the client can know.
        self.assertEqual(len(self.fake.requests), 1)
        few.call("get_session", "anna")
        self.fake.script = [(None, CUT)] * 2
        self.assertIsInstance(self.generate(few)[1], mnemon.Unavailable)
        self.assertEqual(len(self.fake.requests), 3)
        self.fake.stop()
        self.assertIsInstance(self.generate(self.connect())[1], mnemon.Unavailable)

    def test_the_timeout_bounds_all_tries(self):
        self.fake.script = [(1, CUT)] + [(None, CUT)] * 20
        text, error, _ = self.generate(timeout=1)
        self.assertEqual(text, "8,")
        self.assertIsInstance(error, mnemon.DeadlineExceeded)

    def test_tokens_that_do_not_follow_are_an_error(self):
        request = generation_pb2.GenerateRequest(session="s")
        server = mnemon.resume.Server(mnemon.Retry())
        stream = mnemon.resume.Stream(request, server, True, None)
        stream.take(generation_pb2.GenerateResponse(first_index=8, tokens=[1, 2]))
        with self.assertRaisesRegex(mnemon.DataLoss, "token 11 after token 9"):
            stream.take(generation_pb2.GenerateResponse(first_index=11, tokens=[1]))

    def test_calls_on_sessions_are_made_again_where_that_is_right(self):
        self.client.call("get_session", "anna")
        for name, call in (
            ("create", lambda: self.client.call("create_session", "a")),
            ("fork", lambda: self.on_anna("fork", "b")),
        ):
            self.fake.losing = name
            call()
            self.assertEqual(self.fake.sent[name].request_id, self.fake.lost_ids[-1])
            self.assertEqual(len(self.fake.lost_ids[-1]), 36)
        self.fake.losing = "update"
        self.on_anna("update", paused=True)
        for method, arguments, options in (
            ("update", (), {"paused": True, "etag": "e"}),
            ("rewind", (3,), {}),
        ):
            self.fake.losing = method
            with self.assertRaises(mnemon.Unavailable):
                self.on_anna(method, *arguments, **options)

    def on_anna(self, *call, **options):
        return self.client.call_on("anna", *call, **options)

    def test_a_result_is_whole_over_losses(self):
        self.fake.script = [(3, CUT), (2, CUT)]
        result = self.client.result("abc", session="anna", timeout=600)
        self.assertEqual((result.text, result.resumes), (TEXT, 2))
        self.assertEqual(result.tokens, [100 + FIRST + i for i in range(ANSWER)])
        self.assertEqual(result.prompt.token_count, 3)
        self.assertEqual(result.finish.generated_token_count, ANSWER)

    def test_what_is_lost_after_the_last_message_is_whole(self):
        self.fake.script = [(ANSWER, "late")]
        self.expect_whole()
        self.assertEqual(len(self.fake.requests), 1)

    def test_an_import_is_made_again_from_its_begin(self):
        self.client.call("get_session", "anna")
        self.fake.losing = "import"
        file = io.BytesIO(b"head" + bytes(range(256)) * 3000)
        file.seek(4)
        self.client.call("import_session", file, "copy")
        self.assertEqual(self.fake.snapshot, bytes(range(256)) * 3000)
        self.assertEqual(self.fake.sent["import"].request_id, self.fake.lost_ids[-1])
        self.fake.losing = "import"
        file.seek(4)
        file.seekable = lambda: False
        with self.assertRaises(mnemon.Unavailable):
            self.client.call("import_session", file, "copy", size=768000)


# Ctrl-C is sent to these; the first argument is the address.
INTERRUPTED = {
    "threads": """
import sys, mnemon
with mnemon.Client(sys.argv[1]) as client:
    for chunk in client.generate("abc", session="anna"):
        print(chunk.text, flush=True)
""",
    "asyncio": """
import asyncio, sys, mnemon
async def main():
    async with mnemon.aio.Client(sys.argv[1]) as client:
        async for chunk in client.generate("abc", session="anna"):
            print(chunk.text, flush=True)
asyncio.run(main())
""",
}


class InterruptTest(unittest.TestCase):
    def interrupt(self, program, end):
        """Begins a stream of two tokens and `end`, and interrupts it."""
        fake = Fake()
        self.addCleanup(fake.stop)
        fake.script = [(2, end)]
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED[program], fake.address],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            lines = [process.stdout.readline().strip() for _ in range(3)]
            self.assertEqual(lines, ["", "8,", "9,"])
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=600)
        finally:
            process.kill()
            process.wait()
        self.assertIn("KeyboardInterrupt", said)
        self.assertEqual(said.count("Exception ignored"), 0, said)
        self.assertNotEqual(process.returncode, 0)
        return fake

    def test_ctrl_c_cancels_the_call(self):
        for program in INTERRUPTED:
            with self.subTest(program):
                fake = self.interrupt(program, "hang")
                self.assertTrue(fake.left.wait(600))

    def test_ctrl_c_ends_the_pause_between_two_tries(self):
        for program in INTERRUPTED:
            with self.subTest(program):
                again = (grpc.StatusCode.UNAVAILABLE, "DRAINING", 30)
                fake = self.interrupt(program, again)
                self.assertEqual(len(fake.requests), 1)


class ThreadsTest(ResumeTests, unittest.TestCase):
    Connect = Threads


class AsyncioTest(ResumeTests, unittest.TestCase):
    Connect = Asyncio


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
