"""The errors that injected faults answer with; each service declares its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Code, sentence and HTTP status; the sentences are AWS's where it has one. They may contain {stream}, {shard},
# {account}.
ErrorForm = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class FaultErrors:
    """The errors of one service.

    Attributes:
        throttle: the error for too many requests.
        throttled_actions: the throttling errors of single operations, by the operation's name.
        error: the error of a failed service.
        callers_errors_are_400: whether every client error has status 400.
    """

    throttle: ErrorForm = ("ThrottlingException", "Rate exceeded", 400)
    throttled_actions: Mapping[str, ErrorForm] = field(default_factory=dict[str, ErrorForm])
    error: ErrorForm = ("InternalFailure", "Internal service failure.", 500)
    callers_errors_are_400: bool = False
