# SPDX-License-Identifier: MIT
"""The Python client's calls on sessions against a fake of the service.

    python_sessions_test.py REPOSITORY PACKAGE

PACKAGE is the folder that the package is made in, or `installed` to take it from where
this Python finds it.
"""

import asyncio
import concurrent.futures
import datetime
import io
import subprocess
import sys
import unittest

try:
    import grpc
except ImportError:
    print("SKIPPED: this Python has no grpc; install the package python3-grpcio")
    sys.exit(77)

REPOSITORY, PACKAGE = sys.argv[1:3]
if PACKAGE != "installed":
    subprocess.run(
        [sys.executable, f"{REPOSITORY}/client/python/generate_descriptors.py"]
        + ["--out", PACKAGE],
        check=True,
        timeout=60,
    )
    sys.path.insert(0, PACKAGE)
import mnemon  # noqa: E402
from mnemon.v1 import sessions_pb2  # noqa: E402

UTC = datetime.timezone.utc


class FakeSessions:
    """Over plain dictionaries; `sent` holds the last request of each method."""

    def __init__(self):
        self.sent = {}
        self.sessions = {}
        self.snapshot = b""
        self.announced = None
        self.broken = False
        self.verification = sessions_pb2.VerifySessionResponse(stored_form_valid=True)
        service = sessions_pb2.Session.DESCRIPTOR.file.services_by_name["Sessions"]
        kinds = {"ExportSession": "unary_stream", "ImportSession": "stream_unary"}
        handlers = {}
        for method in service.methods:
            kind = kinds.get(method.name, "unary_unary")
            request = getattr(sessions_pb2, f"{method.name}Request")
            handlers[method.name] = getattr(grpc, f"{kind}_rpc_method_handler")(
                getattr(self, method.name),
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        handler = grpc.method_handlers_generic_handler(service.full_name, handlers)
        self.server.add_generic_rpc_handlers((handler,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stop(self):
        self.server.stop(grace=None).wait(timeout=10)

    def find(self, name, context, etag=""):
        session = self.sessions.get(name)
        if session is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no session {name}")
        if etag and etag != session.etag:
            context.abort(grpc.StatusCode.ABORTED, f"the etag is {session.etag}")
        return session

    def make(self, session_id, tokens):
        name = f"sessions/{session_id or 'drawn'}"
        self.sessions[name] = sessions_pb2.Session(name=name, token_count=tokens, etag="e1")
        return self.sessions[name]

    def CreateSession(self, request, context):
        self.sent["create"] = request
        return self.make(request.session_id, 0)

    def GetSession(self, request, context):
        return self.find(request.name, context)

    def ListSessions(self, request, context):
        self.sent.setdefault("list", []).append(request)
        names = [name for name in sorted(self.sessions) if name > request.page_token]
        page = names[: request.page_size or 2]
        return sessions_pb2.ListSessionsResponse(
            sessions=[self.sessions[name] for name in page],
            next_page_token=page[-1] if len(page) < len(names) else "",
        )

    def UpdateSession(self, request, context):
        self.sent["update"] = request
        return self.find(request.session.name, context, request.session.etag)

    def DeleteSession(self, request, context):
        from google.protobuf import empty_pb2

        self.sent["delete"] = request
        if not (request.allow_missing and request.name not in self.sessions):
            self.find(request.name, context, request.etag)
            del self.sessions[request.name]
        return empty_pb2.Empty()

    def ForkSession(self, request, context):
        self.sent["fork"] = request
        parent = self.find(request.name, context)
        tokens = request.token_count if request.HasField("token_count") else None
        return self.make(request.session_id, parent.token_count if tokens is None else tokens)

    def RewindSession(self, request, context):
        self.sent["rewind"] = request
        session = self.find(request.name, context, request.etag)
        if request.WhichOneof("target") == "token_count":
            session.token_count = request.token_count
        return session

    def CheckpointSession(self, request, context):
        session = self.find(request.name, context)
        return sessions_pb2.Checkpoint(
            checkpoint_id=request.checkpoint_id or "drawn", token_count=session.token_count
        )

    def ExportSession(self, request, context):
        session = self.find(request.name, context)
        size = len(self.snapshot) if self.announced is None else self.announced
        for at in range(0, len(self.snapshot), 1000):
            first = {"session": session, "size_bytes": size} if at == 0 else {}
            yield sessions_pb2.ExportSessionResponse(
                chunk=self.snapshot[at : at + 1000], **first
            )
            if self.broken:
                context.abort(grpc.StatusCode.DATA_LOSS, "the disk broke")

    def ImportSession(self, messages, context):
        opened = next(messages).open
        self.sent["import"] = opened
        self.chunks = []
        for message in messages:
            self.chunks.append(message.chunk)
            if self.broken:
                context.abort(grpc.StatusCode.DATA_LOSS, "the disk broke")
        return self.make(opened.session_id, 7)

    def VerifySession(self, request, context):
        self.sent["verify"] = request
        self.find(request.name, context)
        return self.verification


class SessionsTest(unittest.TestCase):
    def setUp(self):
        self.fake = FakeSessions()
        self.addCleanup(self.fake.stop)
        self.client = mnemon.Client(self.fake.address, timeout=20)
        self.addCleanup(self.client.close)
        self.fake.make("anna", 12)

    def test_create_takes_every_choice(self):
        self.client.create_session("bert")
        self.assertEqual(self.fake.sent["create"].session.ttl.seconds, 86400)
        self.client.create_session(
            "bert",
            model="small",
            expire_time=datetime.datetime(2030, 1, 31, 8, tzinfo=UTC),
            durability="always",
            sampling={"temperature": 0.5, "logit_bias": {7: -1.0}},
            paused=True,
            request_id="uuid",
        )
        sent = self.fake.sent["create"]
        self.assertEqual(sent.request_id, "uuid")
        self.assertEqual(sent.session.model, "models/small")
        self.assertEqual(sent.session.expire_time.seconds, 1896076800)
        self.assertEqual(sent.session.durability, sessions_pb2.Session.ALWAYS)
        self.assertEqual(sent.session.sampling.temperature, 0.5)
        self.assertEqual(sent.session.sampling.logit_bias[0].token_id, 7)
        self.assertTrue(sent.session.paused)

    def test_choices_that_do_not_exist_are_named(self):
        for error, text, choices in (
            (ValueError, "'some'", {"durability": "some"}),
            (ValueError, "time zone", {"expire_time": datetime.datetime(2030, 1, 31)}),
            (TypeError, "'temprature'", {"sampling": {"temprature": 1}}),
        ):
            with self.assertRaisesRegex(error, text):
                self.client.create_session("bert", **choices)
        with self.assertRaisesRegex(TypeError, "token_count or checkpoint_id"):
            self.client.rewind_session("anna")

    def test_list_asks_for_all_pages(self):
        for name in ("b", "c", "d"):
            self.fake.make(name, 1)
        sessions = self.client.list_sessions(filter="state = IDLE", order_by="name desc")
        self.assertEqual([s.name[9:] for s in sessions], ["anna", "b", "c", "d"])
        sent = self.fake.sent["list"]
        self.assertEqual([r.page_token for r in sent], ["", "sessions/b"])
        for request in sent:
            self.assertEqual(request.filter, "state = IDLE")
            self.assertEqual(request.order_by, "name desc")

    def test_update_masks_what_is_given(self):
        self.client.update_session(
            "anna", paused=False, sampling={"top_k": 4}, fields=["ttl"], etag="e1"
        )
        sent = self.fake.sent["update"]
        self.assertEqual(list(sent.update_mask.paths), ["paused", "sampling", "ttl"])
        self.assertEqual(sent.session.sampling.top_k, 4)
        self.assertFalse(sent.session.HasField("ttl"))
        with self.assertRaises(mnemon.Aborted):
            self.client.update_session("anna", paused=True, etag="e0")

    def test_delete_takes_etag_and_absence(self):
        with self.assertRaises(mnemon.Aborted):
            self.client.delete_session("anna", etag="e0")
        self.client.delete_session("anna", etag="e1")
        with self.assertRaises(mnemon.NotFound):
            self.client.delete_session("anna")
        self.client.delete_session("anna", allow_missing=True)

    def test_fork_rewind_and_checkpoint(self):
        self.assertEqual(self.client.fork_session("anna", "bert").token_count, 12)
        self.assertFalse(self.fake.sent["fork"].session.HasField("ttl"))
        fork = self.client.fork_session("anna", token_count=0, ttl=60)
        self.assertEqual((fork.name, fork.token_count), ("sessions/drawn", 0))
        self.assertEqual(self.fake.sent["fork"].session.ttl.seconds, 60)
        self.assertEqual(self.client.checkpoint_session("anna").checkpoint_id, "drawn")
        self.assertEqual(self.client.checkpoint_session("anna", "c").checkpoint_id, "c")
        self.client.rewind_session("anna", checkpoint_id="c", etag="e1")
        self.assertEqual(self.fake.sent["rewind"].checkpoint_id, "c")
        self.assertEqual(self.client.rewind_session("anna", token_count=0).token_count, 0)

    def test_export_writes_the_snapshot(self):
        self.fake.snapshot = bytes(range(256)) * 100
        file = io.BytesIO()
        self.assertEqual(self.client.export_session("anna", file).token_count, 12)
        self.assertEqual(file.getvalue(), self.fake.snapshot)
        self.fake.announced = 5
        with self.assertRaisesRegex(mnemon.DataLoss, "5 bytes and sent 25600"):
            self.client.export_session("anna", io.BytesIO())
        self.fake.broken = True
        with self.assertRaisesRegex(mnemon.DataLoss, "the disk broke"):
            self.client.export_session("anna", io.BytesIO())
        with self.assertRaises(mnemon.NotFound):
            self.client.export_session("nobody", io.BytesIO())

    def test_import_sends_the_snapshot(self):
        file = io.BytesIO(b"head" + b"x" * 600000)
        file.seek(4)
        session = self.client.import_session(file, "copy", durability="turn")
        self.assertEqual(session.name, "sessions/copy")
        self.assertEqual([len(c) for c in self.fake.chunks], [262144, 262144, 75712])
        sent = self.fake.sent["import"]
        self.assertEqual(sent.size_bytes, 600000)
        self.assertEqual(sent.session.durability, sessions_pb2.Session.TURN)
        self.assertFalse(sent.session.HasField("ttl"))
        self.fake.broken = True
        with self.assertRaisesRegex(mnemon.DataLoss, "the disk broke"):
            self.client.import_session(io.BytesIO(b"x" * 600000))

    def test_verify_tells_what_differs(self):
        self.assertFalse(self.client.verify_session("anna").HasField("replay_equal"))
        self.fake.verification.replay_equal = False
        self.fake.verification.first_difference = "memory"
        verification = self.client.verify_session("anna", replay=True)
        self.assertTrue(self.fake.sent["verify"].replay)
        self.assertEqual(verification.first_difference, "memory")


class AsyncSessionsTest(unittest.TestCase):
    def test_the_same_with_asyncio(self):
        fake = FakeSessions()
        self.addCleanup(fake.stop)
        fake.snapshot = b"x" * 2500

        async def use():
            async with mnemon.aio.Client(fake.address, timeout=20) as client:
                await client.create_session("anna", ttl=None, paused=True)
                await client.update_session("anna", paused=False)
                await client.fork_session("anna", "bert", token_count=0)
                await client.checkpoint_session("anna", "c")
                await client.rewind_session("anna", checkpoint_id="c")
                file = io.BytesIO()
                await client.export_session("anna", file)
                file.seek(0)
                await client.import_session(file, "copy")
                self.assertEqual(b"".join(fake.chunks), fake.snapshot)
                self.assertTrue((await client.verify_session("anna")).stored_form_valid)
                sessions = await client.list_sessions(filter="tier = DISK", page_size=1)
                self.assertEqual([s.name[9:] for s in sessions], ["anna", "bert", "copy"])
                await client.delete_session("anna", etag="e1")
                await client.delete_session("anna", allow_missing=True)
                fake.announced = 1
                with self.assertRaises(mnemon.DataLoss):
                    await client.export_session("bert", file)

        asyncio.run(asyncio.wait_for(use(), timeout=60))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
