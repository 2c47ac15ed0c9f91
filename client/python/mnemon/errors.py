# SPDX-License-Identifier: MIT
"""Failed calls as exceptions, decoded from the standard error details (google.rpc)."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import grpc

from mnemon import standard
from mnemon.descriptors import message_class

_DETAILS = "grpc-status-details-bin"
_TYPE_PREFIX = "type.googleapis.com/"


@dataclasses.dataclass(frozen=True)
class FieldViolation:
    field: str  # path in the request: "sampling.top_p"
    description: str


class Error(Exception):
    """A call that failed. Subclasses are named after the gRPC status codes."""

    code: grpc.StatusCode  # of the call
    message: str  # for people
    reason: str  # upper snake case, for programs; "" when the server gave none
    metadata: dict[str, str]  # facts that belong to the reason
    field_violations: list[FieldViolation]  # what to correct in the request
    retry_after: datetime.timedelta | None  # repeat the call no sooner than this
    details: list[Any]  # every google.rpc detail message, decoded

    def __init__(self, code: grpc.StatusCode, message: str, details: list[Any]) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.details = details
        self.reason = ""
        self.metadata = {}
        self.field_violations = []
        self.retry_after = None
        for detail in details:
            kind = detail.DESCRIPTOR.name
            if kind == "ErrorInfo":
                self.reason = detail.reason
                self.metadata = dict(detail.metadata)
            elif kind == "BadRequest":
                self.field_violations = [
                    FieldViolation(v.field, v.description) for v in detail.field_violations
                ]
            elif kind == "RetryInfo":
                self.retry_after = detail.retry_delay.ToTimedelta()


class InvalidArgument(Error):
    pass


class NotFound(Error):
    pass


class AlreadyExists(Error):
    pass


class FailedPrecondition(Error):
    pass


class OutOfRange(Error):
    pass


class ResourceExhausted(Error):
    pass


class Unavailable(Error):
    pass


class Aborted(Error):
    pass


class Cancelled(Error):
    pass


class DeadlineExceeded(Error):
    pass


class DataLoss(Error):
    pass


class Internal(Error):
    pass


class Unimplemented(Error):
    pass


class Unauthenticated(Error):
    pass


class PermissionDenied(Error):
    pass


_CLASSES: dict[grpc.StatusCode, type[Error]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.ABORTED: Aborted,
    grpc.StatusCode.CANCELLED: Cancelled,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.DATA_LOSS: DataLoss,
    grpc.StatusCode.INTERNAL: Internal,
    grpc.StatusCode.UNIMPLEMENTED: Unimplemented,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
}


def _decode(trailers: Any) -> list[Any]:
    """Detail messages in the trailers of a call; none when they are absent or damaged."""
    for key, value in trailers or ():
        if key != _DETAILS:
            continue
        try:
            status = standard.Status.FromString(value)
            details = []
            for packed in status.details:
                kind = message_class(packed.type_url.removeprefix(_TYPE_PREFIX))
                if kind is not None:
                    details.append(kind.FromString(packed.value))
            return details
        except Exception:  # DecodeError of either protobuf implementation
            return []
    return []


# What newer versions of grpc.aio say where a message could not be sent because the
# stream was over, before they know how it ended.
_NOT_SENT = "Internal error from Core"


def from_rpc_error(error: Any) -> Error:
    """`error` of a sync or asyncio call as the matching subclass of Error."""
    code = error.code()
    if code is grpc.StatusCode.INTERNAL and error.details() == _NOT_SENT:
        code = grpc.StatusCode.UNAVAILABLE
    return _CLASSES.get(code, Error)(
        code, error.details() or "", _decode(error.trailing_metadata())
    )
