# SPDX-License-Identifier: MIT
"""Client of a mnemon server over gRPC.

    import mnemon

    with mnemon.Client("127.0.0.1:50051") as client:
        for chunk in client.generate("It is ", max_tokens=100, temperature=0.6):
            print(chunk.text, end="", flush=True)

mnemon.aio.Client is the same with asyncio. Failed calls raise mnemon.Error.
"""

from mnemon import aio
from mnemon.client import Client
from mnemon.errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from mnemon.resume import Retry, new_request_id

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "Error",
    "FailedPrecondition",
    "FieldViolation",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "Retry",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "aio",
    "new_request_id",
]
