# SPDX-License-Identifier: MIT
"""Message classes and stubs out of v1/api.binpb, the descriptors of the API.

Code that protoc generates runs only on some releases of protobuf; descriptors have no
release. The messages of mnemon.v1 are in protobuf's default pool, where any program may
use them. Those of google.rpc and grpc.health.v1 are in a pool of their own: in the
default one they would collide with the PyPI packages of those names.
"""

import pathlib
from typing import TYPE_CHECKING, Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,  # noqa: F401  imported by the API, as the next three
    empty_pb2,  # noqa: F401
    field_mask_pb2,  # noqa: F401
    message_factory,
    symbol_database,
    timestamp_pb2,  # noqa: F401
)
from google.protobuf.internal import builder  # what generated code calls

_PATH = pathlib.Path(__file__).parent / "v1/api.binpb"
_OWN = "mnemon."


def _read_files() -> Any:
    try:
        content = _PATH.read_bytes()
    except FileNotFoundError:
        raise ImportError(
            f"{_PATH} is missing: run generate_descriptors.py, or install by pip"
        ) from None
    return descriptor_pb2.FileDescriptorSet.FromString(content).file


_files = {file.name: file for file in _read_files()}
_own_pool = descriptor_pool.Default()
_standard_pool = descriptor_pool.DescriptorPool()
for _file in _files.values():
    _pool = _own_pool if _file.package.startswith(_OWN) else _standard_pool
    _pool.AddSerializedFile(_file.SerializeToString())

if hasattr(message_factory, "GetMessageClass"):
    _own_class = _standard_class = message_factory.GetMessageClass
else:  # protobuf 4.21
    _own_class = symbol_database.Default().GetPrototype
    _standard_class = message_factory.MessageFactory(_standard_pool).GetPrototype


def message_class(full_name: str) -> Any:
    """The class of a message, or None for a name that this client does not know."""
    own = full_name.startswith(_OWN)
    try:
        descriptor = (_own_pool if own else _standard_pool).FindMessageTypeByName(full_name)
    except KeyError:
        return None
    return (_own_class if own else _standard_class)(descriptor)


def fill_module(module: dict[str, Any], path: str) -> None:
    """Adds what the .proto file `path` of mnemon.v1 declares to the globals of a module."""
    file = _own_pool.FindFileByName(path)
    builder.BuildTopDescriptorsAndMessages(file, module["__name__"], module)


class Stub:
    """The methods of the service `full_name` over one channel, sync or asyncio."""

    def __init__(self, channel: Any, full_name: str) -> None:
        package, _, name = full_name.rpartition(".")
        (service,) = (
            service
            for file in _files.values()
            if file.package == package
            for service in file.service
            if service.name == name
        )
        for method in service.method:
            takes = "stream" if method.client_streaming else "unary"
            gives = "stream" if method.server_streaming else "unary"
            request = message_class(method.input_type.lstrip("."))
            response = message_class(method.output_type.lstrip("."))
            call = getattr(channel, f"{takes}_{gives}")(
                f"/{full_name}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            setattr(self, method.name, call)

    if TYPE_CHECKING:

        def __getattr__(self, method: str) -> Any: ...
