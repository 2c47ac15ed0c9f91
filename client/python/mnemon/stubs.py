# SPDX-License-Identifier: MIT
"""The services that the client calls, over one channel, sync or asyncio."""

from typing import Any

from mnemon.descriptors import Stub

CHANNEL_OPTIONS = (
    # Detects a lost connection. The server accepts a ping per 10 s at most.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A call waits no longer than that for a server that is back.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Each client in a process has a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
)


class Stubs:
    def __init__(self, channel: Any) -> None:
        self.generation = Stub(channel, "mnemon.v1.Generation")
        self.models = Stub(channel, "mnemon.v1.Models")
        self.sessions = Stub(channel, "mnemon.v1.Sessions")
        self.check_health = Stub(channel, "grpc.health.v1.Health").Check
