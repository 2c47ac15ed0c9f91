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
import pathlib
import sys
import tempfile
import unittest

import package_under_test

REPOSITORY, PACKAGE = sys.argv[1:3]
package_under_test.find(REPOSITORY, PACKAGE)
import grpc  # noqa: E402
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
        self.undeletable = False
        self.raced = 0  # so often a session is made by others, and once also deleted
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
        self.server.stop(grace=None).wait(timeout=600)

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
        if self.raced > 0:
            self.raced -= 1
            if self.raced == 0:
                self.make(request.session_id, 7)
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "the id is taken")
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
        if self.undeletable:
            context.abort(grpc.StatusCode.INTERNAL, "undeletable")
        if not (request.allow_missing and request.name not in self.sessions):
            self.find(request.name, context, request.etag)
            del self.sessions[request.name]
        return empty_pb2.Empty()

    def ForkSession(self, request, context):
        self.sent["fork"] = request
        parent = self.find(request.name, context)
        tokens = request.token_count if request.HasField("token_count") else None
        return self.make(
            request.session_id, parent.token_count if tokens is None else tokens
        )

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

    def GetSessionHistory(self, request, context):
        self.sent["history"] = request
        count = self.find(request.name, context).token_count
        return sessions_pb2.SessionHistory(
            name=request.name, first_index=count - 2, tokens=[4, 5], text="ab",
            byte_offsets=[0, 1], token_count=count,
        )

    def VerifySession(self, request, context):
        self.sent["verify"] = request
        self.find(request.name, context)
        return self.verification


class SessionsTest(unittest.TestCase):
    def setUp(self):
        self.fake = FakeSessions()
        self.addCleanup(self.fake.stop)
        self.client = mnemon.Client(self.fake.address, timeout=600)
        self.addCleanup(self.client.close)
        self.fake.make("anna", 12)
        self.anna = self.client.get_session("anna")

    def test_create_takes_every_choice(self):
        self.client.create_session("bert")
        self.assertEqual(self.fake.sent["create"].session.ttl.seconds, 86400)
        self.client.create_session("bert", ttl=None)
        self.assertFalse(self.fake.sent["create"].session.HasField("ttl"))
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
            (ValueError, "'some', not one of none, turn, always", {"durability": "some"}),
            (ValueError, "time zone", {"expire_time": datetime.datetime(2030, 1, 31)}),
            (TypeError, "'temprature'", {"sampling": {"temprature": 1}}),
            (TypeError, "'tll'", {"tll": 1}),
        ):
            with self.assertRaisesRegex(error, text):
                self.client.create_session("bert", **choices)
        for call in (self.anna.update, self.anna.fork, self.anna.score):
            with self.assertRaisesRegex(TypeError, "'tll'"):
                call("bert", tll=1) if call != self.anna.update else call(tll=1)
        with self.assertRaisesRegex(ValueError, "not -3"):
            self.anna.rewind(-3)

    def test_a_session_is_opened_or_made(self):
        self.assertEqual(self.client.session("anna").token_count, 12)
        self.assertNotIn("create", self.fake.sent)
        self.assertEqual(self.client.session("bert", ttl=60).token_count, 0)
        self.assertEqual(self.fake.sent["create"].session.ttl.seconds, 60)
        self.fake.raced = 1
        self.assertEqual(self.client.session("carl").token_count, 7)
        self.fake.raced = 2
        with self.assertRaises(mnemon.AlreadyExists):
            self.client.session("dora")

    def test_the_end_of_with_deletes_what_is_not_kept(self):
        with self.client.session() as drawn, self.client.session("bert"):
            self.assertEqual(drawn.id, "drawn")
        self.assertEqual(sorted(self.fake.sessions), ["sessions/anna", "sessions/bert"])
        self.assertTrue(self.fake.sent["delete"].allow_missing)
        with self.client.session(keep=True), self.client.session("bert", keep=False):
            pass
        self.assertEqual(sorted(self.fake.sessions), ["sessions/anna", "sessions/drawn"])
        with self.assertRaises(KeyError), self.client.session("bert", keep=False):
            self.fake.undeletable = True
            raise KeyError("what happened first counts")
        with self.assertRaises(mnemon.Internal), self.client.session("bert", keep=False):
            pass

    def test_what_is_shown_of_a_session(self):
        self.fake.sessions["sessions/anna"].model = "models/<small>"
        self.anna.refresh()
        self.assertEqual(repr(self.anna), "<Session 'anna', model '<small>', 12 tokens>")
        shown = self.anna._repr_html_()
        self.assertIn("session anna", shown)
        self.assertIn("&lt;small&gt;", shown)
        self.assertIn("token_count=12", repr(self.anna.info))
        self.assertIn("<table>", self.anna.info._repr_html_())

    def test_list_asks_for_all_pages(self):
        for name in ("b", "c", "d"):
            self.fake.make(name, 1)
        sessions = self.client.list_sessions(filter="state = IDLE", order_by="name desc")
        self.assertEqual([s.id for s in sessions], ["anna", "b", "c", "d"])
        sent = self.fake.sent["list"]
        self.assertEqual([r.page_token for r in sent], ["", "sessions/b"])
        for request in sent:
            self.assertEqual(request.filter, "state = IDLE")
            self.assertEqual(request.order_by, "name desc")

    def test_update_masks_what_is_given(self):
        self.anna.update(paused=False, sampling={"top_k": 4}, fields=["ttl"], etag="e1")
        sent = self.fake.sent["update"]
        self.assertEqual(list(sent.update_mask.paths), ["paused", "sampling", "ttl"])
        self.assertEqual(sent.session.sampling.top_k, 4)
        self.assertFalse(sent.session.HasField("ttl"))
        with self.assertRaises(mnemon.Aborted):
            self.anna.update(paused=True, etag="e0")

    def test_what_a_session_says_can_be_asked_for_again(self):
        self.fake.sessions["sessions/anna"].durability = sessions_pb2.Session.ALWAYS
        sampling = self.fake.sessions["sessions/anna"].sampling
        sampling.top_k = 4
        sampling.logit_bias.add(token_id=7, bias=0.5)
        info = self.anna.refresh()
        self.assertEqual(info.sampling, {"top_k": 4, "logit_bias": {7: 0.5}})
        self.client.create_session("b", durability=info.durability, sampling=info.sampling)
        sent = self.fake.sent["create"].session
        self.assertEqual((sent.durability, sent.sampling), (3, sampling))

    def test_delete_takes_etag_and_absence(self):
        with self.assertRaises(mnemon.Aborted):
            self.anna.delete(etag="e0")
        self.client.delete_session("anna", etag="e1")
        with self.assertRaises(mnemon.NotFound):
            self.anna.delete()
        self.client.delete_session("anna", allow_missing=True)

    def test_fork_rewind_and_checkpoint(self):
        self.assertEqual(self.anna.fork("bert").token_count, 12)
        self.assertFalse(self.fake.sent["fork"].session.HasField("ttl"))
        fork = self.anna.fork(token_count=0, ttl=60)
        self.assertEqual((fork.id, fork.token_count, fork.keep), ("drawn", 0, False))
        self.assertEqual(self.fake.sent["fork"].session.ttl.seconds, 60)
        self.assertEqual(self.anna.checkpoint().id, "drawn")
        place = self.anna.checkpoint("c")
        self.anna.rewind("c", etag="e1")
        self.assertEqual(self.fake.sent["rewind"].checkpoint_id, "c")
        self.anna.rewind(place)
        self.assertEqual(self.fake.sent["rewind"].checkpoint_id, "c")
        self.assertEqual(self.anna.rewind(0).token_count, 0)
        self.assertEqual(self.anna.token_count, 0)

    def test_export_writes_the_snapshot(self):
        self.fake.snapshot = bytes(range(256)) * 100
        file = io.BytesIO()
        self.assertEqual(self.anna.export(file).token_count, 12)
        self.assertEqual(file.getvalue(), self.fake.snapshot)
        self.fake.announced = 5
        with self.assertRaisesRegex(mnemon.DataLoss, "5 bytes and sent 25600"):
            self.anna.export(io.BytesIO())
        self.fake.broken = True
        with self.assertRaisesRegex(mnemon.DataLoss, "the disk broke"):
            self.anna.export(io.BytesIO())
        del self.fake.sessions["sessions/anna"]
        with self.assertRaises(mnemon.NotFound):
            self.anna.export(io.BytesIO())

    def test_a_path_holds_a_whole_snapshot_or_what_it_held(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "anna.session"
            self.fake.snapshot = b"x" * 3000
            self.anna.export(str(path))
            self.fake.broken = True
            with self.assertRaises(mnemon.DataLoss):
                self.anna.export(path)
            self.assertEqual(path.read_bytes(), self.fake.snapshot)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [path])
            self.fake.broken = False
            self.assertEqual(self.client.import_session(path, "copy").id, "copy")
            self.assertEqual(b"".join(self.fake.chunks), self.fake.snapshot)

    def test_import_sends_the_snapshot(self):
        file = io.BytesIO(b"head" + b"x" * 600000)
        file.seek(4)
        session = self.client.import_session(file, "copy", durability="turn")
        self.assertEqual(session.id, "copy")
        self.assertEqual([len(c) for c in self.fake.chunks], [262144, 262144, 75712])
        sent = self.fake.sent["import"]
        self.assertEqual(sent.size_bytes, 600000)
        self.assertEqual(sent.session.durability, sessions_pb2.Session.TURN)
        self.assertFalse(sent.session.HasField("ttl"))
        self.fake.broken = True
        with self.assertRaisesRegex(mnemon.DataLoss, "the disk broke"):
            self.client.import_session(io.BytesIO(b"x" * 600000))

    def test_history_has_tokens_and_text(self):
        history = self.anna.history()
        self.assertFalse(self.fake.sent["history"].HasField("first_index"))
        self.assertEqual((history.first_index, history.token_count), (10, 12))
        self.assertEqual((history.tokens, history.text), ([4, 5], "ab"))
        self.anna.history(first_index=0, token_count=3)
        self.assertEqual(self.fake.sent["history"].first_index, 0)
        self.assertEqual(self.fake.sent["history"].token_count, 3)

    def test_verify_tells_what_differs(self):
        self.assertIsNone(self.anna.verify().replay_equal)
        self.assertTrue(self.anna.verify().ok)
        self.fake.verification.replay_equal = False
        self.fake.verification.first_difference = "memory"
        verification = self.anna.verify(replay=True)
        self.assertTrue(self.fake.sent["verify"].replay)
        self.assertEqual(
            (verification.ok, verification.first_difference), (False, "memory")
        )


class AsyncSessionsTest(unittest.TestCase):
    def test_the_same_with_asyncio(self):
        fake = FakeSessions()
        self.addCleanup(fake.stop)
        fake.snapshot = b"x" * 2500

        async def use():
            async with mnemon.aio.Client(fake.address, timeout=600) as client:
                anna = await client.create_session("anna", ttl=None, paused=True)
                await anna.update(paused=False)
                async with anna.fork("bert", token_count=0) as bert:
                    self.assertEqual(bert.token_count, 0)
                await anna.checkpoint("c")
                await anna.rewind("c")
                file = io.BytesIO()
                await anna.export(file)
                file.seek(0)
                await client.import_session(file, "copy")
                self.assertEqual(b"".join(fake.chunks), fake.snapshot)
                self.assertTrue((await anna.verify()).ok)
                self.assertEqual((await anna.history()).text, "ab")
                async with client.session() as drawn:
                    self.assertEqual(drawn.id, "drawn")
                found = client.list_sessions(filter="tier = DISK", page_size=1)
                self.assertEqual([s.id async for s in found], ["anna", "bert", "copy"])
                self.assertEqual((await client.session("copy")).token_count, 7)
                await client.delete_session("anna", etag="e1")
                await anna.delete(allow_missing=True)
                fake.raced = 2
                with self.assertRaises(mnemon.AlreadyExists):
                    await client.session("dora")
                fake.announced = 1
                with self.assertRaises(mnemon.DataLoss):
                    await bert.export(file)

        asyncio.run(asyncio.wait_for(use(), timeout=600))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
