"""What a function's process and the channel to it say to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Invocation(NamedTuple):
    """One invocation, with the values that the Runtime API passes to the process."""

    request_id: str
    function_arn: str
    payload: bytes
    trace_id: str
    client_context: str = ""


@dataclass(slots=True)
class ResponsePart:
    """A part of a streamed response. `content_type` is that of the whole response."""

    request_id: str
    content_type: str
    data: bytes


@dataclass(slots=True)
class ReadyForInvocation:
    """The process is ready for an invocation."""


@dataclass(slots=True)
class Responded:
    """The process responded to an invocation. `too_large_bytes` is the body's size if it exceeds the limit."""

    request_id: str
    body: bytes
    too_large_bytes: int = 0


@dataclass(slots=True)
class ErrorReported:
    """The process reported an error of an invocation, or of its initialisation (then `request_id` is None)."""

    request_id: str | None
    error_type: str
    body: bytes


@dataclass(slots=True)
class PackageWanted:
    """The process asks for a package of the AWS SDK; `answer` takes the reason why it gets none, or ""."""

    package: str
    answer: Callable[[str], None]


@dataclass(slots=True)
class ProcessEnded:
    """The process ended."""


Message = (
    ReadyForInvocation | Responded | ResponsePart | ErrorReported | PackageWanted | ProcessEnded
)
