# SPDX-License-Identifier: MIT
"""The messages of google.rpc and grpc.health.v1 that the client uses."""

from mnemon.descriptors import message_class

Status = message_class("google.rpc.Status")
HealthCheckRequest = message_class("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = message_class("grpc.health.v1.HealthCheckResponse")
