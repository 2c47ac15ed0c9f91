# SPDX-License-Identifier: MIT
"""The generated stubs over one channel, sync or asyncio."""

from mnemon import standard
from mnemon.v1 import generation_pb2_grpc, models_pb2_grpc, sessions_pb2_grpc


class Stubs:
    def __init__(self, channel):
        self.generation = generation_pb2_grpc.GenerationStub(channel)
        self.models = models_pb2_grpc.ModelsStub(channel)
        self.sessions = sessions_pb2_grpc.SessionsStub(channel)
        self.check_health = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=standard.HealthCheckRequest.SerializeToString,
            response_deserializer=standard.HealthCheckResponse.FromString,
        )
