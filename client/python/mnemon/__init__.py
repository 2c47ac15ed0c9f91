# SPDX-License-Identifier: MIT
"""Client of a mnemon server over gRPC.

    import mnemon

    with mnemon.Client() as client, client.session("anna") as anna:
        for chunk in anna.generate("It is ", max_tokens=100, temperature=0.6):
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
from mnemon.generation import Generation, Scoring
from mnemon.options import Prompt, Sampling
from mnemon.resources import Checkpoint, History, Model, SessionInfo, Verification
from mnemon.results import (
    Candidate,
    Chunk,
    FinishFacts,
    FloatArray,
    GenerateResult,
    Introspection,
    MemoryRead,
    Prediction,
    Progress,
    PromptFacts,
    ScoreResult,
    TokenLogprobs,
)
from mnemon.resume import Retry, new_request_id
from mnemon.session import Session
from mnemon.version import __version__

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "Candidate",
    "Checkpoint",
    "Chunk",
    "Client",
    "DataLoss",
    "DeadlineExceeded",
    "Error",
    "FailedPrecondition",
    "FieldViolation",
    "FinishFacts",
    "FloatArray",
    "GenerateResult",
    "Generation",
    "History",
    "Internal",
    "Introspection",
    "InvalidArgument",
    "MemoryRead",
    "Model",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "Prediction",
    "Progress",
    "Prompt",
    "PromptFacts",
    "ResourceExhausted",
    "Retry",
    "Sampling",
    "ScoreResult",
    "Scoring",
    "Session",
    "SessionInfo",
    "TokenLogprobs",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Verification",
    "__version__",
    "aio",
    "new_request_id",
]
