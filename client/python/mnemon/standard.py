# SPDX-License-Identifier: MIT
"""The messages of google.rpc and grpc.health.v1, in a descriptor pool of their own."""

import pathlib

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_pool = descriptor_pool.DescriptorPool()
_files = descriptor_pb2.FileDescriptorSet.FromString(
    (pathlib.Path(__file__).parent / "v1/standard.binpb").read_bytes()
)
for _file in _files.file:
    _pool.AddSerializedFile(_file.SerializeToString())


def message_class(full_name: str):
    """The class of a message, or None for a name that this client does not know."""
    try:
        descriptor = _pool.FindMessageTypeByName(full_name)
    except KeyError:
        return None
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool).GetPrototype(descriptor)


Status = message_class("google.rpc.Status")
HealthCheckRequest = message_class("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = message_class("grpc.health.v1.HealthCheckResponse")
