# SPDX-License-Identifier: MIT
"""The services that the client calls, over one channel, sync or asyncio."""

from mnemon.descriptors import Stub


class Stubs:
    def __init__(self, channel):
        self.generation = Stub(channel, "mnemon.v1.Generation")
        self.models = Stub(channel, "mnemon.v1.Models")
        self.sessions = Stub(channel, "mnemon.v1.Sessions")
        self.check_health = Stub(channel, "grpc.health.v1.Health").Check
